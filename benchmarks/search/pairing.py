"""One sampler against another on the same tables and seeds: is it better, and how sure is that."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.search.replay import Replay
from benchmarks.search.tables import Table

MARGIN = 1.01
"""A sampler that is surely not 1 % worse counts as no worse."""
_TWO_SIDED_95 = 1.96


class Verdict(StrEnum):
    """What the interval of a ratio says."""

    BETTER = "better"
    """All of it is below 1."""
    NO_WORSE = "no worse"
    """It holds 1, and all of it is below the margin."""
    UNDECIDED = "undecided"
    """It holds 1, and goes beyond the margin: more seeds would tell."""
    WORSE = "worse"
    """All of it is above 1."""


@dataclass(frozen=True)
class Pair:
    """``sampler`` against ``other`` after ``trials`` trials.

    ``ratio`` is the best of ``sampler`` over that of ``other``, geometric mean over tables and
    seeds: below 1, ``sampler`` found better ones. ``interval`` is its 95 % confidence interval
    over seeds, for these very tables. ``worst_ratio`` is that of the table worst for ``sampler``.
    """

    sampler: str
    other: str
    trials: int
    ratio: float
    interval: tuple[float, float]
    worst_table: str
    worst_ratio: float

    @property
    def verdict(self) -> Verdict:
        """What the interval says."""
        low, high = self.interval
        if high < 1.0:
            return Verdict.BETTER
        if low > 1.0:
            return Verdict.WORSE
        return Verdict.NO_WORSE if high <= MARGIN else Verdict.UNDECIDED


def paired(
    tables: Sequence[Table], runs: Sequence[Replay], sampler: str, other: str, trials: int
) -> Pair:
    """Compares the two on ``tables`` run by run: same table, same seed.

    Where a run had no valid trial by then, the slowest valid config of the table counts.
    """
    ours, theirs = _by_seed(runs, sampler), _by_seed(runs, other)
    logs = {}
    for table in tables:
        slowest = max(row.cycles for row in table.rows if row.cycles is not None) / table.optimum
        logs[table.name] = [
            math.log(min(run.at(trials), slowest) / min(theirs[key].at(trials), slowest))
            for key, run in ours.items()
            if key[0] == table.name and key in theirs
        ]
    means = {name: statistics.fmean(found) for name, found in logs.items()}
    mean = statistics.fmean(means.values())
    variance = sum(statistics.variance(s) / len(s) if len(s) > 1 else 0.0 for s in logs.values())
    half = _TWO_SIDED_95 * math.sqrt(variance) / len(logs)
    worst = max(means, key=lambda name: means[name])
    return Pair(
        sampler,
        other,
        trials,
        math.exp(mean),
        (math.exp(mean - half), math.exp(mean + half)),
        worst,
        math.exp(means[worst]),
    )


def _by_seed(runs: Sequence[Replay], sampler: str) -> Mapping[tuple[str, int], Replay]:
    return {(run.table, run.seed): run for run in runs if run.sampler == sampler}
