"""Samplers side by side: many replays of each on tables, their figures, and which is better."""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from benchmarks.search.replay import Replay, replay
from benchmarks.search.tables import Table, read_table
from tuner.errors import HvxtuneError, UserError
from tuner.search.samplers import DEFAULT_SAMPLER, require_fits, sampler_names
from tuner.search.samplers.surrogate import CHOSEN_ON

BUDGETS = (20, 50, 100, 200)
"""Numbers of trials at which searches are compared."""
MARGIN = 1.01
"""A sampler that is surely not 1 % worse counts as no worse."""
_TWO_SIDED_95 = 1.96
_NOT_COMPARED = "brute"
"""It takes configs in the order of the space, whatever the seed, and so does not search."""


@dataclass(frozen=True)
class Figures:
    """Best over optimum after some number of trials: 1 is perfect.

    ``interval`` is the 95 % confidence interval of the geometric mean over seeds, for these very
    tables. ``worst`` is the worst run of all. Infinite where a run had no valid trial by then.
    """

    trials: int
    geometric_mean: float
    interval: tuple[float, float]
    worst: float


@dataclass(frozen=True)
class Result:
    """The figures of one sampler's runs, on one table or on several."""

    sampler: str
    figures: tuple[Figures, ...]
    own_ms: float
    """Milliseconds of sampler and proposer for a trial, on average."""


class Verdict(StrEnum):
    """The reading of a ratio's interval."""

    BETTER = "better"
    """All of it is below 1."""
    NO_WORSE = "no worse"
    """It holds 1, and all of it is below the margin."""
    UNDECIDED = "undecided"
    """It holds 1, and goes beyond the margin: more seeds would tell."""
    WORSE = "worse"
    """All of it is above 1."""


@dataclass(frozen=True)
class PairedRatio:
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
        """The reading of the interval."""
        low, high = self.interval
        if high < 1.0:
            return Verdict.BETTER
        if low > 1.0:
            return Verdict.WORSE
        return Verdict.NO_WORSE if high <= MARGIN else Verdict.UNDECIDED


def paired(
    tables: Sequence[Table], runs: Sequence[Replay], sampler: str, other: str, trials: int
) -> PairedRatio:
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
    mean, half = _mean_and_half_interval([*logs.values()])
    worst = max(means, key=lambda name: means[name])
    return PairedRatio(
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


@dataclass(frozen=True)
class Comparison:
    """Every run. All samplers had the same tables and seeds."""

    tables: tuple[Table, ...]
    samplers: tuple[str, ...]
    runs: tuple[Replay, ...]

    @property
    def judged(self) -> tuple[Table, ...]:
        """The tables that a search is judged by: those held out, or all if none is."""
        return tuple(t for t in self.tables if is_held_out(t)) or self.tables

    def overall(self) -> list[Result]:
        """One result a sampler on the judged tables, each table counting alike; best at 100
        trials first."""
        found = [self._result(s, [t.name for t in self.judged]) for s in self.samplers]
        return sorted(found, key=lambda r: r.figures[BUDGETS.index(100)].geometric_mean)

    def pairs(self) -> list[PairedRatio]:
        """Our sampler, or else the first, against each other one on the judged tables."""
        ours = DEFAULT_SAMPLER if DEFAULT_SAMPLER in self.samplers else self.samplers[0]
        return [
            paired(self.judged, self.runs, ours, other, trials)
            for other in self.samplers
            if other != ours
            for trials in BUDGETS
        ]

    def of_table(self, table: str) -> list[Result]:
        """One result a sampler on one table."""
        return [self._result(sampler, [table]) for sampler in self.samplers]

    def _result(self, sampler: str, tables: Sequence[str]) -> Result:
        strata = [[r for r in self.runs if r.sampler == sampler and r.table == t] for t in tables]
        every = [run for stratum in strata for run in stratum]
        return Result(
            sampler,
            tuple(_figures(n, strata) for n in BUDGETS),
            statistics.fmean(run.own_ms for run in every),
        )


def _figures(trials: int, strata: Sequence[Sequence[Replay]]) -> Figures:
    ratios = [[run.at(trials) for run in stratum] for stratum in strata]
    worst = max(max(stratum) for stratum in ratios)
    if math.isinf(worst):
        return Figures(trials, worst, (worst, worst), worst)
    logs = [[math.log(ratio) for ratio in stratum] for stratum in ratios]
    mean, half = _mean_and_half_interval(logs)
    interval = (max(1.0, math.exp(mean - half)), math.exp(mean + half))
    return Figures(trials, math.exp(mean), interval, worst)


def _mean_and_half_interval(strata: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The mean of the strata's means, and half its 95 % interval by the spread within each one."""
    variance = sum(statistics.variance(s) / len(s) if len(s) > 1 else 0.0 for s in strata)
    half = _TWO_SIDED_95 * math.sqrt(variance) / len(strata)
    return statistics.fmean(statistics.fmean(s) for s in strata), half


def is_held_out(table: Table) -> bool:
    """Whether no setting of our sampler was chosen on the kernel of ``table``."""
    return table.notes.get("kernel") not in CHOSEN_ON


def default_samplers(paths: Sequence[Path]) -> tuple[list[str], dict[str, str]]:
    """Every sampler that searches and fits the tables, and why others are left out."""
    fitting, left_out = [], {}
    for name in sampler_names():
        if name == _NOT_COMPARED:
            continue
        try:
            for path in paths:
                require_fits(name, _table(path).space)
        except HvxtuneError as error:
            left_out[name] = error.message
        else:
            fitting.append(name)
    return fitting, left_out


def compare(
    paths: Sequence[Path],
    samplers: Sequence[str],
    *,
    seeds: int,
    workers: int,
    in_flight: int = 1,
    starts: bool = False,
) -> Iterator[Replay | Comparison]:
    """Replays every sampler on every table with ``seeds`` seeds, in ``workers`` processes.

    Yields each run as it ends and the comparison last. Raises ``UserError``
    for a bad table, or one that a sampler does not fit, before any run.
    """
    tables = tuple(_table(path) for path in paths)
    for sampler in samplers:
        for table in tables:
            require_fits(sampler, table.space)
    names = [table.name for table in tables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"two tables are called '{twice}'", accepted="tables of different names")
    wanted = [
        _Run(path, name, seed, in_flight, starts)
        for name in samplers
        for path in paths
        for seed in range(seeds)
    ]
    runs: list[Replay] = []
    with _pool(workers) as pool:
        try:
            for run in pool.map(_replay, wanted):
                runs.append(run)
                yield run
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    yield Comparison(tables, tuple(samplers), tuple(runs))


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes whose BLAS uses one thread each: the matrices are small, the processors taken."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            yield pool
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


@dataclass(frozen=True)
class _Run:
    """One replay, for another process."""

    path: Path
    sampler: str
    seed: int
    in_flight: int
    starts: bool


def _replay(run: _Run) -> Replay:
    table = _table(run.path)
    return replay(
        table,
        run.sampler,
        run.seed,
        trials=BUDGETS[-1],
        in_flight=run.in_flight,
        starts=run.starts,
    )


_table = lru_cache(maxsize=32)(read_table)
