"""What each way of making a kernel's code comes to, beside the best of a search.

    python -m benchmarks.kernels [--trials 200] [--seed 0] [--workers N] [--json FILE] [KERNEL ...]

Prints packets and cycles of every kernel at its default shape: without a schedule, by each of
Halide's autoschedulers (what is wrong or fails is named as such), by auto-vectorized C (its best
point), by the textbook schedule, and by the best of a search with the generator ``portfolio``. All
compile in the same contained processes, and every output is verified. With ``--json`` a kernel's
row is kept in FILE as soon as it is complete, and what is in FILE already is not measured again.
The exit status is 1 if a best is not the lowest of its row, in packets and in cycles.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tuner
from tuner.candidate import Problem
from tuner.codegen import space_of
from tuner.errors import UserError
from tuner.kernels import find_kernel, kernel_names
from tuner.memory_store import MemoryStore
from tuner.target import DEFAULT_TARGET
from tuner.trial import Trial
from tuner.tuning import default_workers, find_problem, measure, named_config

C, BEST, TEXTBOOK = "C", "best", "textbook"
Cell = dict[str, Any]
"""``packets`` and ``cycles`` of a verified run, or what became of it as ``outcome``."""


def cell(trial: Trial) -> Cell:
    """What a table says of ``trial``."""
    found = trial.measurement
    if found is None:
        return {"outcome": trial.outcome.value, "error": (trial.error or "")[:200]}
    return {"outcome": "ok", "packets": found.packets, "cycles": found.cycles}


def told(name: str, made: Cell) -> Cell:
    """``made``, after a line of progress."""
    figures = f"{made['packets']:,} packets" if made["outcome"] == "ok" else made["outcome"]
    sys.stderr.write(f"  {name}: {figures}\n")
    return made


def by_halide_alone(problem: Problem) -> Iterator[tuple[str, Cell]]:
    """Without a schedule, and by each autoscheduler."""
    kernel = find_kernel(problem.workload.kernel)
    for config in space_of("halide-auto", kernel, problem):
        trial, _ = measure(problem, config, generator="halide-auto")
        yield config.text("autoscheduler"), cell(trial)


def by_c(problem: Problem) -> Cell:
    """The best of all points of the C forms."""
    try:
        space = space_of("c-autovec", find_kernel(problem.workload.kernel), problem)
    except UserError:
        return {"outcome": "no C form"}
    cells = [cell(measure(problem, config, generator="c-autovec")[0]) for config in space]
    return min(cells, key=lambda made: made.get("cycles", float("inf")))


def by_search(problem: Problem, trials: int, seed: int, workers: int) -> Cell:
    """The best of a search with the portfolio."""
    result = tuner.tune(
        problem.workload.kernel,
        problem.workload.params,
        store=MemoryStore(),
        trials=trials,
        seed=seed,
        workers=workers,
        generator="portfolio",
    )
    if result.best is None:
        return {"outcome": result.job.note}
    return {**cell(result.best), "config": result.best.config.as_dict()}


def row_of(kernel: str, trials: int, seed: int, workers: int) -> dict[str, Any]:
    """One kernel's line of the table; seconds to some minutes."""
    problem = find_problem(kernel, None, DEFAULT_TARGET, "static")
    sys.stderr.write(f"{problem.workload.label}\n")
    cells = {name: told(name, made) for name, made in by_halide_alone(problem)}
    cells[C] = told(C, by_c(problem))
    textbook = named_config(problem, TEXTBOOK)
    assert textbook is not None  # noqa: S101 - every kernel has one
    cells[TEXTBOOK] = told(TEXTBOOK, cell(measure(problem, textbook)[0]))
    cells[BEST] = told(BEST, by_search(problem, trials, seed, workers))
    peak = find_kernel(kernel).work(problem.workload.params).peak_cycles(problem.target)
    best = cells[BEST].get("cycles")
    return {
        "kernel": kernel,
        "workload": problem.workload.label,
        "trials": trials,
        "seed": seed,
        "cells": cells,
        "share_of_peak": peak / best if best else None,
    }


def holds(row: dict[str, Any]) -> bool:
    """Whether the best found is the lowest of its row."""
    best = row["cells"][BEST]
    rest = [made for made in row["cells"].values() if made["outcome"] == "ok"]
    return best["outcome"] == "ok" and all(
        best[figure] <= made[figure] for made in rest for figure in ("packets", "cycles")
    )


def print_rows(rows: list[dict[str, Any]]) -> None:
    """The table, on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table("workload", title="packets / cycles, all outputs verified")
    names = list(dict.fromkeys(name for row in rows for name in row["cells"]))
    for name in (*names, "by", "of peak"):
        table.add_column("no schedule" if name == "none" else name, justify="right")
    for row in rows:
        cells = [_shown(row["cells"][name]) for name in names]
        by = row["cells"][BEST].get("config", {}).get("generator", "-")
        share = f"{row['share_of_peak']:.0%}" if row["share_of_peak"] else "-"
        table.add_row(row["workload"], *cells, by, share + ("" if holds(row) else " !"))
    Console(width=180).print(table)


def _shown(made: Cell) -> str:
    if made["outcome"] != "ok":
        return str(made["outcome"]).replace("_", " ")
    return f"{made['packets']:,}\n{made['cycles']:,}"


def main() -> int:
    """Runs the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kernels", nargs="*", default=kernel_names())
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--json", type=Path, metavar="FILE", help="keeps rows, and takes them up")
    given = parser.parse_args()
    asked = {"trials": given.trials, "seed": given.seed}
    kept = given.json.read_text() if given.json and given.json.exists() else "[]"
    rows = [row for row in json.loads(kept) if asked.items() <= row.items()]
    for kernel in given.kernels:
        if kernel not in {row["kernel"] for row in rows}:
            rows.append(row_of(kernel, workers=given.workers, **asked))
            if given.json:
                given.json.write_text(json.dumps(rows, indent=1) + "\n")
    shown = [row for row in rows if row["kernel"] in given.kernels]
    print_rows(shown)
    return 0 if all(map(holds, shown)) else 1


if __name__ == "__main__":
    sys.exit(main())
