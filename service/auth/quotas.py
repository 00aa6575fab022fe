"""How much a caller may ask for: by the minute, and by the day.

Rates (requests of a token, failed authentications of an address) are counted in the memory of one
process, over a sliding window. Daily quotas are refused before the work is taken on; they count
what the token's user (its name) asked for in the last 24 hours with any token, so a second token
does not double them. The conductor keeps ``running_jobs``, the gate ``requests_per_minute``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from service.http_errors import HttpError

if TYPE_CHECKING:
    from db.access.usage import Use
    from db.sql_store import SqlStore
    from service.auth.caller import Caller

DAY_S = 24 * 3600.0


class Rate:
    """At most ``per_minute`` of something for each key. Safe from several threads."""

    def __init__(self, name: str, per_minute: int) -> None:
        self.per_minute = per_minute
        self._name = name
        self._limit = RateLimitItemPerMinute(per_minute)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def hit(self, key: str, count: int = 1) -> bool:
        """Counts ``count`` for ``key``; false, and counts nothing, if that is too many."""
        return self._limiter.hit(self._limit, key, cost=count)

    def test(self, key: str) -> bool:
        """Whether ``key`` may have one more."""
        return self._limiter.test(self._limit, key)

    def headers(self, key: str) -> Mapping[str, str]:
        """``Retry-After``, and the fields of draft-ietf-httpapi-ratelimit-headers-10."""
        stats = self._limiter.get_window_stats(self._limit, key)
        wait_s = max(1, math.ceil(stats.reset_time - time.time()))
        return {
            "Retry-After": str(wait_s),
            "RateLimit-Policy": f'"{self._name}";q={self.per_minute};w=60',
            "RateLimit": f'"{self._name}";r={stats.remaining};t={wait_s}',
        }


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
