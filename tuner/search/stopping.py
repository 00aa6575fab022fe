"""When a job is over, or is to stop early."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence

from tuner.errors import UserError
from tuner.problem.objectives import Front
from tuner.records.trial import Budget, FiguresOf, RemainingGain, Trial


class StopRequest(threading.Event):
    """Asks a running job for an orderly stop, and says why: ``reason`` becomes its note."""

    reason = "stopped on request"


def reason_of(stop: threading.Event) -> str:
    """Why ``stop`` was set, in words."""
    return stop.reason if isinstance(stop, StopRequest) else StopRequest.reason


def require_estimable(until_gain: float | None, objectives: Sequence[str]) -> None:
    """``UserError`` for a job that should stop by an estimate that its objectives do not have."""
    if until_gain is not None and len(objectives) > 1:
        raise UserError(
            f"until_gain={until_gain} for {', '.join(objectives)}: "
            "the gain is estimated for cycles alone",
            accepted="trials, seconds and patience as limits of several objectives",
        )


class Improvements:
    """Counts trials since the last one that was better than all before it, in the order of their
    numbers, whatever the order they finish in. With several objectives, better is any change of
    the Pareto front."""

    def __init__(self, figures: FiguresOf) -> None:
        self._figures = figures
        self._front = Front()
        self._since = 0
        self._next = 0

    def since(self, trials: Mapping[int, Trial]) -> int:
        """``trials``, by number, are all that have finished: those of the last call, and more.

        The cost grows with the new ones alone. A number is missing only while it is in flight.
        """
        while (trial := trials.get(self._next)) is not None:
            self._since = self._counted(self._front, self._since, trial)
            self._next += 1
        beyond = len(trials) - self._next  # those behind one that is in flight
        front, since, number = self._front.copy(), self._since, self._next
        while beyond:
            number += 1
            if number in trials:
                since = self._counted(front, since, trials[number])
                beyond -= 1
        return since

    def _counted(self, front: Front, since: int, trial: Trial) -> int:
        figures = self._figures(trial)
        return 0 if figures is not None and front.offer(figures) else since + 1


def reason_to_stop(
    budget: Budget,
    handed_out: int,
    spent_s: float,
    without_improvement: int,
    remaining: RemainingGain | None = None,
) -> str | None:
    """The limit of ``budget`` that is reached, in words, or ``None``.

    ``handed_out`` counts finished trials and those in flight. No word is lost on the limit of
    trials: whoever counts them sees it.
    """
    if budget.trials is not None and handed_out >= budget.trials:
        return ""
    if budget.seconds is not None and spent_s >= budget.seconds:
        return f"the {budget.seconds:g} s of the budget are spent"
    if budget.patience is not None and without_improvement >= budget.patience:
        return f"no improvement in {without_improvement} trials"
    if budget.until_gain is not None and remaining and remaining.bound <= budget.until_gain:
        return f"the remaining gain is likely less than {budget.until_gain:.2%} of the cycles"
    return None


def used_up(tried: int) -> str:
    """Why a job ends before its budget that ``tried`` all there is, in words."""
    return f"the space is used up: all {tried} configurations that differ were tried"


def reason_of_failure(trials: Sequence[Trial], abandoned: int = 0) -> str:
    """Why a job has no valid trial: the tally of outcomes and the first error text of each.

    ``abandoned`` counts those under way when its seconds were over."""
    tally = Counter(trial.outcome.value for trial in trials)
    if abandoned:
        tally["still under way when its seconds were over"] = abandoned
    first: dict[str, str] = {}
    for trial in trials:
        first.setdefault(trial.outcome.value, trial.error or "")
    counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(tally.items()))
    texts = "; ".join(f"{outcome}: {text[:200]}" for outcome, text in sorted(first.items()) if text)
    return f"no valid trial ({counts or 'none run'}). {texts}".strip()
