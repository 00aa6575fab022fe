"""Daily quotas: refused before the work is taken on.

They count what the token's user (its name) asked for in the last 24 hours, with any token: a
second token does not double them. ``running_jobs`` is kept by the conductor, which starts no
more; ``requests_per_minute`` by the gate.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from service.problem_details import HttpError

if TYPE_CHECKING:
    from db.access.usage import Use
    from db.sql_store import SqlStore
    from service.auth.caller import Caller

DAY_S = 24 * 3600.0


def check_submit(store: SqlStore, caller: Caller, requested_trials: int | None) -> None:
    """Refuses jobs that would exceed ``trials_per_day``. Blocks.

    ``requested_trials`` is the sum of the budgets of all jobs of the request, ``None`` if one of
    them has no number of trials. Such a job could take any number, so a token with this quota
    must name one. Jobs count with their whole budget, whether they use it or not.
    """
    quota = caller.quotas.trials_per_day
    if quota is None:
        return
    if requested_trials is None:
        raise HttpError(
            422,
            f"the token '{caller.name}' has a quota of trials, and a job limited only by seconds"
            " or patience may take any number",
            accepted=f"budget.trials up to {quota}",
            next_step="give budget.trials; the other limits still end the job earlier",
        )
    from db.access.usage import trials_asked_for

    now = time.time()
    used = trials_asked_for(store, caller.name, now - DAY_S)
    _require(caller, "trials_per_day", "trials", used, requested_trials, quota, now)


def check_upload(store: SqlStore, caller: Caller, size_bytes: int) -> None:
    """Refuses an upload that would exceed ``upload_bytes_per_day``. Blocks."""
    quota = caller.quotas.upload_bytes_per_day
    if quota is None:
        return
    from db.access.usage import bytes_uploaded

    now = time.time()
    used = bytes_uploaded(store, caller.name, now - DAY_S)
    _require(caller, "upload_bytes_per_day", "bytes", used, size_bytes, quota, now)


def _require(
    caller: Caller, quota_name: str, unit: str, used: Use, wanted: int, quota: int, now: float
) -> None:
    if wanted > quota:
        raise HttpError(
            422,
            f"{wanted} {unit} are more than {quota_name}={quota} of the token '{caller.name}'",
            accepted=f"at most {quota} {unit} a day",
            next_step="ask for less, or ask the owner of the service for a larger quota",
        )
    spent = sum(amount for _, amount in used)
    if spent + wanted <= quota:
        return
    wait_s = _wait_s(used, spent + wanted - quota, now)
    raise HttpError(
        429,
        f"'{caller.name}' has asked for {spent} {unit} in the last 24 hours; {wanted} more"
        f" exceed {quota_name}={quota}",
        accepted=f"at most {max(quota - spent, 0)} {unit} now",
        next_step=f"ask for less, or come back in {_in_words(wait_s)}",
        headers={"Retry-After": str(wait_s)},
        quota=quota_name,
    )


def _wait_s(used: Use, too_much: int, now: float) -> int:
    """Whole seconds until uses that make up ``too_much`` are a day old."""
    for at, amount in used:
        too_much -= amount
        if too_much <= 0:
            return max(1, math.ceil(at + DAY_S - now))
    return math.ceil(DAY_S)


def _in_words(seconds: int) -> str:
    if seconds < 90:
        return f"{seconds} s"
    return f"{seconds / 3600:.1f} hours" if seconds >= 5400 else f"{round(seconds / 60)} minutes"
