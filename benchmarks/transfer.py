"""Warm start: how many trials a new shape of a kernel takes that was tuned in another shape.

For each two tables of one kernel, both ways: the one is searched as a job would, and the search of
the other learns from its results, as a job would. Counted are the trials until the best is within
5 % of the optimum, with and without them. Only kernels by which no setting of the search was chosen
count for the bars.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Report
from benchmarks.samplers import TABLES
from benchmarks.search.comparison import is_held_out
from benchmarks.search.replay import Replay, replay
from benchmarks.search.tables import Table, read_table
from tuner.search.samplers import DEFAULT_SAMPLER, Source
from tuner.search.transfer import source_for
from tuner.space import Config, KnobValue

_WITHIN = 1 / 0.95
_SOURCE_TRIALS, _TRIALS = 100, 200
BAR = 1 / 3
"""Of the trials of a cold start, geometric mean over pairs."""
MOST_HARM = 1.05
"""The same of the pair that transfer serves worst."""


@dataclass(frozen=True)
class Shortening:
    """Trials to 95 % of the best, averaged over seeds."""

    source: str
    table: str
    cold: float
    warm: float


def shortening(source: Table, table: Table, seeds: int) -> Shortening:
    """Searches ``table`` with and without what a search of ``source`` found."""
    cold, warm, projected = [], [], Projection(table)
    for seed in range(seeds):
        before = replay(source, DEFAULT_SAMPLER, seed, trials=_SOURCE_TRIALS, starts=True)
        cold.append(_needed(table, seed))
        warm.append(_needed(table, seed, learned(source, before, table, projected)))
    return Shortening(source.name, table.name, statistics.fmean(cold), statistics.fmean(warm))


def _needed(table: Table, seed: int, source: Source | None = None) -> int:
    """Trials until the best is near enough to the optimum."""
    run = replay(
        table,
        DEFAULT_SAMPLER,
        seed,
        trials=_TRIALS,
        starts=True,
        source=source,
        enough=_WITHIN,
    )
    return len(run.best)


def learned(table: Table, run: Replay, other: Table, projected: Projection) -> Source:
    """What ``run`` measured of ``table``, for a search of ``other``."""
    cycles = {config: table.results[config].cycles for config in run.tried}
    valid = {config: found for config, found in cycles.items() if found is not None}
    return source_for(valid, table.starts[-1], other.starts[-1], projected)


class Projection:
    """Gives the row of a table nearest to a config: a table has no constraints to settle by."""

    def __init__(self, table: Table) -> None:
        self._rows = list(table.results)
        self._choices: dict[str, list[KnobValue | None]] = {}
        self._codes: dict[str, NDArray[np.intp]] = {}
        for name in table.knobs:
            column = [row.get(name) for row in self._rows]
            self._choices[name] = list(dict.fromkeys(column))
            places = {choice: n for n, choice in enumerate(self._choices[name])}
            self._codes[name] = np.array([places[choice] for choice in column])

    def __call__(self, config: Config) -> Config:
        apart = np.zeros(len(self._rows))
        for name, choices in self._choices.items():
            each = [_knob_apart(choice, config.get(name)) for choice in choices]
            apart += np.array(each)[self._codes[name]]
        return self._rows[int(apart.argmin())]


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
    logs: dict[bool, dict[str, float]] = {True: {}, False: {}}
    report.table({"table": "", "after": "", "trials": ".1f", "from nothing": ".1f", "held out": ""})
    for source, table in pairs_of([read_table(path) for path in paths]):
        found, held_out = shortening(source, table, given.seeds), is_held_out(table)
        names = (found.table, found.source)
        logs[held_out][" after ".join(names)] = math.log(found.warm / found.cold)
        report.row(*names, found.warm, found.cold, "yes" if held_out else "no")
    judged = logs[True] or logs[False]
    if judged:
        ratio = math.exp(statistics.fmean(judged.values()))
        report.bar(f"times the trials, mean of {len(judged)} pairs", ratio, most=BAR)
        worst = max(judged, key=lambda names: judged[names])
        report.bar(f"times the trials, {worst}", math.exp(judged[worst]), most=MOST_HARM)
