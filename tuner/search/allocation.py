"""Which of several searches gets the next trials: the one that promises to save most.

The rule of Ansor's task scheduler (Zheng et al., "Ansor: Generating High-Performance Tensor
Programs for Deep Learning", OSDI 2020, section 6), for the sum of cycles of all workloads, each
times how often it occurs. What a trial saves is estimated from the past (what the last trials
saved) and, with optimism, from what is left: a search that took t trials to reach g cycles may
save g / t with the next, but not go below its HVX peak, nor reach twice the share of the peak
that the best workload of the same kernel has reached. Two things are not Ansor's. Hope fades: what
is left counts for as much as all trials together have improved on the first, and one trial's share
more, so that a workload that nothing helps makes room sooner. And where the budget is time, it is
what a second saves that counts: trials of large workloads take longer, in compiler and simulator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

BACKWARD = 0.2
"""Weight of the past against what is left; Ansor's alpha."""
OPTIMISM = 2.0
"""How much better than its best relative a workload may become; Ansor's beta."""
_PATIENCE = 8
"""Trials that a search without one valid candidate gets."""
_LEAST_SECONDS = 0.05
"""A trial that repeats another's object takes less, but tells nothing of the next one."""


@dataclass
class SearchState:
    """One search. ``peak_cycles`` is the least its work can need, ``family`` its kernel."""

    weight: int
    peak_cycles: float
    family: str
    exhausted: bool = False
    seconds: float = 0.0
    """Wall time that its trials have taken."""
    _history: list[tuple[int, int | None]] = field(default_factory=lambda: [(0, None)])

    def record(self, trials: int, best_cycles: int | None, seconds: float = 0.0) -> None:
        """After ``trials`` in all, which took ``seconds``, the best is ``best_cycles``; ``None`` if
        nothing is valid."""
        self._history.append((trials, best_cycles))
        self.seconds = seconds

    @property
    def trials(self) -> int:
        """How many it has had."""
        return self._history[-1][0]

    @property
    def best_cycles(self) -> int | None:
        """The best so far."""
        return self._history[-1][1]

    @property
    def first_cycles(self) -> int | None:
        """The best when there first was one."""
        return next((best for _, best in self._history if best is not None), None)

    @property
    def seconds_of_trial(self) -> float:
        """What the next one will take, if it is like those before; 0 while nothing tells."""
        return self.seconds / self.trials if self.trials else 0.0

    @property
    def share_of_peak(self) -> float:
        """Peak over best, 0 without a best."""
        return self.peak_cycles / self.best_cycles if self.best_cycles else 0.0

    @property
    def saved_lately(self) -> float:
        """Cycles that each of the latest trials saved."""
        if len(self._history) < 2:
            return 0.0
        (before, then), (after, now) = self._history[-2:]
        if then is None or now is None or after == before:
            return 0.0
        return (then - now) / (after - before)


def _hope(task: SearchState) -> float:
    """1 after the first trial, the fewer the more trials have changed nothing."""
    first, best = task.first_cycles, task.best_cycles
    improved = math.log(first / best) if first and best else 0.0
    return min(1.0, improved + 1.0 / max(1, task.trials))


def expected_gain(task: SearchState, best_share: float) -> float:
    """Cycles of the whole set that one more trial of ``task`` is expected to save.

    ``best_share`` is the largest share of the peak among tasks of its family.
    """
    best = task.best_cycles
    if best is None:
        return float("inf") if task.trials < _PATIENCE else 0.0
    reachable = task.peak_cycles / min(1.0, OPTIMISM * best_share)
    left = max(0.0, min(best / max(1, task.trials), best - reachable))
    return task.weight * (BACKWARD * task.saved_lately + (1 - BACKWARD) * _hope(task) * left)


def next_search(
    tasks: Sequence[SearchState], busy: Sequence[int] = (), seconds_left: float | None = None
) -> int | None:
    """The position of the task that is to go on; ``None`` if none can.

    Those at positions ``busy`` are being worked on. Tasks without any trial come first, those with
    most work to save before others. With ``seconds_left`` the budget is time: gains are then by the
    second, and tasks whose next trial would not end in time are left alone.
    """
    shares: dict[str, float] = {}
    for task in tasks:
        shares[task.family] = max(shares.get(task.family, 0.0), task.share_of_peak)
    timed = seconds_left is not None

    def promise(task: SearchState) -> tuple[bool, float, float]:
        gain = expected_gain(task, shares[task.family])
        price = max(task.seconds_of_trial, _LEAST_SECONDS) if timed else 1.0
        return task.trials == 0, gain / price, task.weight * task.peak_cycles

    open_ = [
        i
        for i, task in enumerate(tasks)
        if not task.exhausted
        and i not in busy
        and (seconds_left is None or task.seconds_of_trial <= seconds_left)
    ]
    return max(open_, key=lambda i: promise(tasks[i]), default=None)
