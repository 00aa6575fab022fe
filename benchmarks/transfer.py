"""Warm start: how many trials a new shape of a kernel takes that was tuned in another shape.

For each two tables of one kernel, both ways: the one is searched as a job would, the configs that a
job would transfer are projected into the other, and the search of that begins with its textbook
config, then them, then its default. Counted are the trials until the best is within 5 % of the
optimum, with and without them. Only kernels by which no setting of the search was chosen count for
the bar.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Report
from benchmarks.samplers import TABLES
from benchmarks.search.comparison import is_held_out
from benchmarks.search.replay import Replay, replay
from benchmarks.search.tables import Table, read_table
from tuner.search.samplers import DEFAULT_SAMPLER
from tuner.search.transfer import unlike
from tuner.space import Config, KnobValue

_WITHIN = 1 / 0.95
_SOURCE_TRIALS, _TRIALS = 100, 200
BAR = 1 / 3
"""Of the trials of a cold start, geometric mean over pairs."""


@dataclass(frozen=True)
class Shortening:
    """Trials to 95 % of the best, averaged over seeds."""

    source: str
    table: str
    cold: float
    warm: float


def shortening(source: Table, table: Table, seeds: int) -> Shortening:
    """Searches ``table`` with and without what a search of ``source`` found."""
    cold, warm = [], []
    for seed in range(seeds):
        before = replay(source, DEFAULT_SAMPLER, seed, trials=_SOURCE_TRIALS, starts=True)
        found = unlike([project(table, config) for config in ranked(source, before)])
        cold.append(_needed(table, seed))
        warm.append(_needed(table, seed, found))
    return Shortening(source.name, table.name, statistics.fmean(cold), statistics.fmean(warm))


def _needed(table: Table, seed: int, transfers: Sequence[Config] = ()) -> int:
    """Trials until the best is near enough to the optimum."""
    run = replay(
        table,
        DEFAULT_SAMPLER,
        seed,
        trials=_TRIALS,
        starts=True,
        transfers=transfers,
        enough=_WITHIN,
    )
    return len(run.best)


def ranked(table: Table, run: Replay) -> list[Config]:
    """The valid configs that ``run`` tried, fastest first."""
    cycles = {config: table.results[config].cycles for config in run.tried}
    valid = [(found, n) for n, found in enumerate(cycles.values()) if found is not None]
    configs = list(cycles)
    return [configs[n] for _, n in sorted(valid)]


def project(table: Table, config: Config) -> Config:
    """The row of ``table`` nearest to ``config``: a table has no constraints to settle by."""
    return min(table.results, key=lambda row: _apart(row.as_dict(), config.as_dict()))


def _apart(one: Mapping[str, KnobValue], other: Mapping[str, KnobValue]) -> float:
    return sum(_knob_apart(one.get(name), other.get(name)) for name in one.keys() | other.keys())


def _knob_apart(one: KnobValue | None, other: KnobValue | None) -> float:
    if isinstance(one, int) and isinstance(other, int):
        return min(1.0, abs(math.log2((1 + one) / (1 + other))))
    return float(one != other)


def pairs_of(tables: Sequence[Table]) -> list[tuple[Table, Table]]:
    """Every two tables of one kernel, both ways."""
    return [
        (one, other)
        for one, other in itertools.permutations(tables, 2)
        if one.notes.get("kernel") is not None and one.notes["kernel"] == other.notes.get("kernel")
    ]


def options(parser: argparse.ArgumentParser) -> None:
    """Which tables, and how often."""
    parser.add_argument("tables", nargs="*", type=Path, metavar="TABLE")
    parser.add_argument("--seeds", type=int, default=20)


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells the trials of each pair, and over all of them the ratio."""
    paths = given.tables or sorted(TABLES.glob("*.jsonl.gz"))
    logs: dict[bool, list[float]] = {True: [], False: []}
    report.table({"table": "", "after": "", "trials": ".1f", "from nothing": ".1f", "held out": ""})
    for source, table in pairs_of([read_table(path) for path in paths]):
        found, held_out = shortening(source, table, given.seeds), is_held_out(table)
        logs[held_out].append(math.log(found.warm / found.cold))
        names = (found.table, found.source)
        report.row(*names, found.warm, found.cold, "yes" if held_out else "no")
    judged = logs[True] or logs[False]
    if judged:
        ratio = math.exp(statistics.fmean(judged))
        report.bar(f"times the trials, mean of {len(judged)} pairs", ratio, most=BAR)
