"""Warm start: how many trials a new shape of a kernel takes that was tuned in another shape.

    python -m benchmarks.search_transfer [--seeds 20] TABLE ...

For each two tables of one kernel, both ways: the one is searched as a job would, the fastest four
configs found are projected into the other, and the search of that begins with them, then its
default and textbook configs. Counted are the trials until the best is within 5 % of the optimum,
with and without them. Only kernels by which no setting of the search was chosen count for the bar.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.search.comparison import is_held_out
from benchmarks.search.replay import Replay, replay
from benchmarks.search.tables import Table, read_table
from tuner.search.samplers import DEFAULT_SAMPLER
from tuner.space import Config, KnobValue

_WITHIN = 1 / 0.95
_SOURCE_TRIALS, _TRIALS = 100, 200
_TRANSFERRED = 4
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
        found = [project(table, config) for config in fastest(source, before)]
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


def fastest(table: Table, run: Replay) -> list[Config]:
    """The fastest configs that ``run`` tried."""
    cycles = {config: table.results[config].cycles for config in run.tried}
    valid = [(found, n) for n, found in enumerate(cycles.values()) if found is not None]
    configs = list(cycles)
    return [configs[n] for _, n in sorted(valid)[:_TRANSFERRED]]


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


def main() -> int:
    """Prints the trials of each pair, and over all of them the ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="+", type=Path, metavar="TABLE")
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    pairs = pairs_of([read_table(path) for path in given.tables])
    if not pairs:
        print("no two tables are of one kernel: nothing to begin a search with")
        return 0
    logs: dict[bool, list[float]] = {True: [], False: []}
    for source, table in pairs:
        found = shortening(source, table, given.seeds)
        logs[is_held_out(table)].append(math.log(found.warm / found.cold))
        mark = "" if is_held_out(table) else " (not held out)"
        print(
            f"{found.table} after {found.source}: {found.warm:.1f} trials to 95 %, "
            f"from nothing {found.cold:.1f}{mark}",
            flush=True,
        )
    print(_summary(logs[True] or logs[False], held_out=bool(logs[True])))
    return 0


def _summary(logs: Sequence[float], *, held_out: bool) -> str:
    ratio = math.exp(statistics.fmean(logs))
    verdict = "held" if ratio <= BAR else "NOT held"
    return (
        f"{len(logs)} {'held-out ' if held_out else ''}pairs: {ratio:.2f} times the trials; "
        f"at most {BAR:.2f} is wanted: {verdict}"
    )


if __name__ == "__main__":
    sys.exit(main())
