"""Which of several searches gets the next trials: the one expected to save most.

The rule of Ansor's task scheduler (Zheng et al., "Ansor: Generating High-Performance Tensor
Programs for Deep Learning", OSDI 2020, section 6), for the sum of cycles of all workloads, each
times its occurrences. The saving of a trial is estimated from the past (the saving of the last
trials) and, with optimism, from the cycles left to save: a search that took t trials to reach g
cycles may save g / t with the next, but not go below its roofline, nor reach twice the share of
the roofline that the best workload of the same kernel has reached. Two things are not Ansor's. Hope
fades: the cycles left count by as much as all trials together have improved on the first, and one
trial's share more, so that a workload that nothing helps makes room sooner. And where the budget is
time, savings are by the second: trials of large workloads take longer, in compiler and simulator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

BACKWARD = 0.2
"""Weight of the past against the cycles left; Ansor's alpha."""
OPTIMISM = 2.0
"""How much better than the best of its kernel a workload may become; Ansor's beta."""
_PATIENCE = 8
"""Trials that a search without one valid candidate gets."""
_LEAST_SECONDS = 0.05
"""A trial that repeats another's object takes less, but says nothing about the next one."""


@dataclass
class SearchState:
    """One search and its results. ``roofline_cycles`` is the least that its algorithm needs,
    ``family`` its kernel."""

    weight: int
    roofline_cycles: float
    family: str
    seeds: int = 1
    """Trials that it begins with, before expectations count."""
    exhausted: bool = False
    seconds: float = 0.0
    """Wall time that its trials have taken."""
    _history: list[tuple[int, int | None]] = field(default_factory=lambda: [(0, None)])

    def record(self, trials: int, best_cycles: int | None, seconds: float = 0.0) -> None:
        """After ``trials`` in all, which took ``seconds``, the best is ``best_cycles``; ``None``
        without a valid one."""
        self._history.append((trials, best_cycles))
        self.seconds = seconds

    def resume(
        self, trials: int, first_cycles: int | None, best_cycles: int | None, seconds: float
    ) -> None:
        """Takes over the result of earlier sessions, as :meth:`record` has it; ``first_cycles`` are
        those of the textbook schedule, which a search begins with."""
        if not trials:
            return
        if first_cycles is not None and trials > 1:
            self.record(1, first_cycles)
        self.record(trials, best_cycles, seconds)

    @property
    def trials(self) -> int:
        """The number of trials so far."""
        return self._history[-1][0]

    @property
    def best_cycles(self) -> int | None:
        """The best so far."""
        return self._history[-1][1]

    @property
    def first_cycles(self) -> int | None:
        """The first best."""
        return next((best for _, best in self._history if best is not None), None)

    @property
    def seconds_of_trial(self) -> float:
        """Seconds of the next trial, if it is like those before; 0 while unknown."""
        return self.seconds / self.trials if self.trials else 0.0

    @property
    def share_of_roofline(self) -> float:
        """Peak over best, 0 without a best."""
        return self.roofline_cycles / self.best_cycles if self.best_cycles else 0.0

    @property
    def saved_lately(self) -> float:
        """Cycles that each of the latest trials saved."""
        if len(self._history) < 2:
            return 0.0
        (before, then), (after, now) = self._history[-2:]
        if then is None or now is None or after == before:
            return 0.0
        return (then - now) / (after - before)


def _hope(search: SearchState) -> float:
    """1 after the first trial; falls as trials bring no improvement."""
    first, best = search.first_cycles, search.best_cycles
    improved = math.log(first / best) if first and best else 0.0
    return min(1.0, improved + 1.0 / max(1, search.trials))


def cycles_left(search: SearchState, best_share: float) -> float | None:
    """Cycles that ``search`` is expected to save at most: down to its roofline, or to twice the
    share of it ``best_share``, the largest in its family. ``None`` without a valid trial."""
    if search.best_cycles is None:
        return None
    reachable = search.roofline_cycles / min(1.0, OPTIMISM * best_share)
    return max(0.0, search.best_cycles - reachable)


def best_shares(searches: Sequence[SearchState]) -> dict[str, float]:
    """The largest share of the roofline in each family."""
    shares: dict[str, float] = {}
    for search in searches:
        shares[search.family] = max(shares.get(search.family, 0.0), search.share_of_roofline)
    return shares


def expected_gain(search: SearchState, best_share: float) -> float:
    """Cycles of the whole set that one more trial of ``search`` is expected to save.

    ``best_share`` is the largest share of the roofline in its family.
    """
    best, most = search.best_cycles, cycles_left(search, best_share)
    if best is None or most is None:
        return float("inf") if search.trials < _PATIENCE else 0.0
    left = min(best / max(1, search.trials), most)
    return search.weight * (BACKWARD * search.saved_lately + (1 - BACKWARD) * _hope(search) * left)


def next_search(
    searches: Sequence[SearchState], busy: Sequence[int] = (), seconds_left: float | None = None
) -> int | None:
    """The position of the search to continue; ``None`` if none can.

    Those at positions ``busy`` are under way. Searches without any trial come first, then those
    that lack seeds, those with most work to save before others. With ``seconds_left`` the budget is
    time: gains are then by the second, and a search whose next trial would not end in time is left
    alone.
    """
    shares = best_shares(searches)
    timed = seconds_left is not None

    def priority(search: SearchState) -> tuple[bool, bool, float, float]:
        gain = expected_gain(search, shares[search.family])
        price = max(search.seconds_of_trial, _LEAST_SECONDS) if timed else 1.0
        size = search.weight * search.roofline_cycles
        if search.trials < search.seeds:
            return search.trials == 0, True, size, size
        return False, False, gain / price, size

    open_ = [
        i
        for i, search in enumerate(searches)
        if not search.exhausted
        and i not in busy
        and (seconds_left is None or search.seconds_of_trial <= seconds_left)
    ]
    return max(open_, key=lambda i: priority(searches[i]), default=None)
