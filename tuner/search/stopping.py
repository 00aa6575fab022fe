"""When a job is over, or is to stop before."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tuner.trial import Budget, Trial


class StopRequest(threading.Event):
    """Asks a running job for an orderly stop, and says why: ``reason`` becomes its note."""

    reason = "stopped on request"


def reason_of(stop: threading.Event) -> str:
    """Why ``stop`` was set, in words."""
    return stop.reason if isinstance(stop, StopRequest) else StopRequest.reason


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
    budget: Budget, handed_out: int, spent_s: float, without_improvement: int
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
    return None
