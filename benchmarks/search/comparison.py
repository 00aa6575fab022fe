"""Samplers side by side: many replays of each on tables, and what they come to."""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from benchmarks.search.pairing import Pair, paired
from benchmarks.search.replay import Replay, replay
from benchmarks.search.tables import Table, read_table
from tuner.errors import HvxtuneError, UserError
from tuner.search.samplers import DEFAULT_SAMPLER, require_fits, sampler_names
from tuner.search.samplers.surrogate import CHOSEN_ON

BUDGETS = (20, 50, 100, 200)
"""Numbers of trials at which searches are compared."""
Guest = Callable[[Table, int], Replay]
"""A search of others: replays itself on a table with a seed. Sent to other processes."""
_TWO_SIDED_95 = 1.96
_NOT_COMPARED = "brute"
"""It takes configs in the order of the space, whatever the seed: no search."""


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
    """What the runs of one sampler came to, on one table or on several."""

    sampler: str
    figures: tuple[Figures, ...]
    own_ms: float
    """Milliseconds of sampler and proposer for a trial, on average."""


@dataclass(frozen=True)
class Comparison:
    """Every run. All samplers had the same tables and seeds."""

    tables: tuple[Table, ...]
    samplers: tuple[str, ...]
    runs: tuple[Replay, ...]

    @property
    def judged(self) -> tuple[Table, ...]:
        """The tables that tell how good a search is: those held out, or all if none is."""
        return tuple(t for t in self.tables if is_held_out(t)) or self.tables

    def overall(self) -> list[Result]:
        """One result a sampler on the judged tables, each table counting alike; best at 100
        trials first."""
        found = [self._result(s, [t.name for t in self.judged]) for s in self.samplers]
        return sorted(found, key=lambda r: r.figures[BUDGETS.index(100)].geometric_mean)

    def pairs(self) -> list[Pair]:
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
    """The mean of the logarithms, and its error from the spread over seeds within each table."""
    ratios = [[run.at(trials) for run in stratum] for stratum in strata]
    worst = max(max(stratum) for stratum in ratios)
    if math.isinf(worst):
        return Figures(trials, worst, (worst, worst), worst)
    logs = [[math.log(ratio) for ratio in stratum] for stratum in ratios]
    mean = statistics.fmean(statistics.fmean(stratum) for stratum in logs)
    variance = sum(statistics.variance(s) / len(s) if len(s) > 1 else 0.0 for s in logs)
    half = _TWO_SIDED_95 * math.sqrt(variance) / len(logs)
    interval = (max(1.0, math.exp(mean - half)), math.exp(mean + half))
    return Figures(trials, math.exp(mean), interval, worst)


def is_held_out(table: Table) -> bool:
    """Whether no setting of our sampler was chosen by the kernel that ``table`` is of."""
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
    guests: Mapping[str, Guest] | None = None,
) -> Iterator[Replay | Comparison]:
    """Replays every sampler on every table with ``seeds`` seeds, in ``workers`` processes.

    So are ``guests``, by the names that their replays bear; ``in_flight`` and ``starts`` are not
    for them. Yields each run as it ends and at last the comparison. Raises ``UserError`` for a bad
    table, or one that a sampler does not fit, before any run.
    """
    tables = tuple(_table(path) for path in paths)
    for sampler in samplers:
        for table in tables:
            require_fits(sampler, table.space)
    names = [table.name for table in tables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"two tables are called '{twice}'", accepted="tables of different names")
    guests = guests or {}
    orders = [
        _Order(path, name, seed, in_flight, starts, guests.get(name))
        for name in (*samplers, *guests)
        for path in paths
        for seed in range(seeds)
    ]
    runs: list[Replay] = []
    with _pool(workers) as pool:
        try:
            for run in pool.map(_replay, orders):
                runs.append(run)
                yield run
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    yield Comparison(tables, (*samplers, *guests), tuple(runs))


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
class _Order:
    """One replay, for another process."""

    path: Path
    sampler: str
    seed: int
    in_flight: int
    starts: bool
    guest: Guest | None


def _replay(order: _Order) -> Replay:
    table = _table(order.path)
    if order.guest is not None:
        return order.guest(table, order.seed)
    return replay(
        table,
        order.sampler,
        order.seed,
        trials=BUDGETS[-1],
        in_flight=order.in_flight,
        starts=order.starts,
    )


_table = lru_cache(maxsize=32)(read_table)
