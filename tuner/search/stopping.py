"""When a job is over, or is to stop before."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.errors import UserError
from tuner.trial import Budget, Trial

if TYPE_CHECKING:
    from tuner.search.remaining import RemainingGain


class StopRequest(threading.Event):
    """Asks a running job for an orderly stop, and says why: ``reason`` becomes its note."""

    reason = "stopped on request"


def reason_of(stop: threading.Event) -> str:
    """Why ``stop`` was set, in words."""
    return stop.reason if isinstance(stop, StopRequest) else StopRequest.reason


def checked_budget(
    trials: int | None, seconds: float | None, patience: int | None, until_gain: float | None
) -> Budget:
    """The budget of these limits; ``UserError`` if there is none or one makes no sense."""
    if trials is None and seconds is None and patience is None and until_gain is None:
        raise UserError(
            "a job without any limit", accepted="trials, seconds, patience or a remaining gain"
        )
    if until_gain is not None and not 0 < until_gain < 1:
        raise UserError(f"until_gain={until_gain}", accepted="a share between 0 and 1, as 0.01")
    for name, value in (("trials", trials), ("seconds", seconds), ("patience", patience)):
        if value is not None and not 0 < value <= 10_000_000:
            raise UserError(f"{name}={value}", accepted="1 to 10000000")
    return Budget(trials, seconds, patience, until_gain)


def since_improvement(trials: Sequence[Trial]) -> int:
    """How many trials finished after the best one, in the order of their numbers."""
    best: int | None = None
    since = 0
    for trial in trials:
        cycles = trial.measurement.cycles if trial.measurement else None
        if cycles is not None and (best is None or cycles < best):
            best, since = cycles, 0
        else:
            since += 1
    return since


def reason_to_stop(
    budget: Budget,
    handed_out: int,
    spent_s: float,
    without_improvement: int,
    remaining: RemainingGain | None = None,
) -> str | None:
    """Which limit of ``budget`` is reached, in words, or ``None``.

    ``handed_out`` counts finished trials and those in flight.
    """
    if budget.trials is not None and handed_out >= budget.trials:
        return f"all {budget.trials} trials handed out"
    if budget.seconds is not None and spent_s >= budget.seconds:
        return f"{budget.seconds:g} s spent"
    if budget.patience is not None and without_improvement >= budget.patience:
        return f"no improvement in {without_improvement} trials"
    if budget.until_gain is not None and remaining and remaining.bound <= budget.until_gain:
        return f"more search is likely worth less than {budget.until_gain:.2%} of the cycles"
    return None
