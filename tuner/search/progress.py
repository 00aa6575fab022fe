"""Where a running job stands, for those who watch it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.records.trial import Budget, RemainingGain, Trial


@dataclass(frozen=True)
class Progress:
    """Where a running job stands; handed to the caller after every commit."""

    finished: int
    total: int | None
    outcomes: Mapping[str, int]
    incumbent: Trial | None
    default: Trial | None
    textbook: Trial | None
    elapsed_s: float
    """Wall seconds of all sessions of the job."""
    eta_s: float | None
    """Estimated seconds to go, from the rate of this session; ``None`` before the first trial."""
    promoted: int = 0
    """Promotions that have come back."""
    promotions: int = 0
    """How many there may be."""
    remaining: RemainingGain | None = None
    """What more search is likely to find; ``None`` while too little is known."""
    on_front: int | None = None
    """Trials on the Pareto front; ``None`` for a job with one goal."""


def seconds_to_go(
    budget: Budget, finished: int, fresh: int, session_s: float, elapsed_s: float
) -> float | None:
    """Estimated wall seconds until ``budget`` is used up, ``None`` while nothing tells.

    ``fresh`` of the ``finished`` trials came back in the ``session_s`` of this session;
    ``elapsed_s`` are those of all sessions.
    """
    eta_s = None
    if fresh and budget.trials is not None:
        eta_s = session_s / fresh * max(0, budget.trials - finished)
    if budget.seconds is not None:
        left_s = max(0.0, budget.seconds - elapsed_s)
        eta_s = left_s if eta_s is None else min(eta_s, left_s)
    return eta_s
