"""What each way of making a kernel's code comes to, beside the best of a search.

    python -m benchmarks.kernels [--trials 200] [--seed 0] [--workers N] [--json FILE] [KERNEL ...]

Prints packets and cycles of every kernel at its default shape: without a schedule, by each of
Halide's autoschedulers (what is wrong or fails is named as such), by auto-vectorized C (its best
point), by the textbook schedule, and by the best of a search with the generator ``portfolio``. All
compile in the same contained processes, and every output is verified. With ``--json`` each cell is
kept in FILE as soon as it is known, and what is in FILE already is not measured again, unless the
code of ``tuner`` is not what it was.
The exit status is 1 if a best is not the lowest of its row, in packets and in cycles.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

import tuner
from tuner.codegen import space_of
from tuner.codegen.c_forms import c_forms
from tuner.codegen.generator import GENERATOR
from tuner.identity import digest_of_bytes
from tuner.jobs.one_config import measure, named_config
from tuner.jobs.tuning import JobOptions, default_workers, find_problem
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel, kernel_names
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.candidate import Problem
from tuner.records.trial import Trial
from tuner.search.loop import Progress
from tuner.space import Config

C, BEST, TEXTBOOK = "C", "best", "textbook"
_TOLD_EVERY = 20
"""Trials."""
Cell = dict[str, Any]
"""``packets`` and ``cycles`` of a verified run, or what became of it as ``outcome``."""
Row = dict[str, Any]
"""A kernel's ``cells`` by what made them, and what they hold for."""


class Asked(TypedDict):
    """What decides a search, beside the code."""

    trials: int
    seed: int


def cell(trial: Trial) -> Cell:
    """What a table says of ``trial``."""
    found = trial.measurement
    if found is None:
        return {"outcome": trial.outcome.value, "error": (trial.error or "")[:200]}
    return {"outcome": "ok", "packets": found.packets, "cycles": found.cycles}


def by_config(problem: Problem, config: Config, generator: str) -> Cell:
    """One config by itself."""
    return cell(measure(problem, config, generator=generator)[0])


def by_search(problem: Problem, **options: Unpack[JobOptions]) -> Cell:
    """The best of a search; ``taken`` is how many trials each of its generators had."""
    store = MemoryStore()
    workload = problem.workload
    result = tuner.tune(workload.kernel, workload.params, store=store, on_progress=_tell, **options)
    if result.best is None:
        return {"outcome": result.job.note}
    trials = store.trials(result.job.id)
    taken = Counter(str(t.config.get(GENERATOR, result.job.spec.generator)) for t in trials)
    return {**cell(result.best), "config": result.best.config.as_dict(), "taken": dict(taken)}


def _tell(progress: Progress) -> None:
    best = progress.incumbent and progress.incumbent.measurement
    if best and progress.finished and progress.finished % _TOLD_EVERY == 0:
        sys.stderr.write(f"    {progress.finished} trials: {best.cycles:,} cycles\n")


def by_c(problem: Problem, workers: int) -> Cell:
    """The best of all points of the C forms."""
    kernel = find_kernel(problem.workload.kernel)
    if not c_forms(kernel):
        return {"outcome": "no C form"}
    every = space_of("c-autovec", kernel, problem).count(1000)
    return by_search(problem, generator="c-autovec", sampler="brute", trials=every, workers=workers)


def ways(problem: Problem, asked: Asked, workers: int) -> dict[str, Callable[[], Cell]]:
    """What a row consists of: without a schedule, each autoscheduler, C, textbook, a search."""
    kernel = find_kernel(problem.workload.kernel)
    textbook = named_config(problem, TEXTBOOK)
    assert textbook is not None  # noqa: S101 - every kernel has one
    alone = space_of("halide-auto", kernel, problem)
    return {
        **{
            config.text("autoscheduler"): partial(by_config, problem, config, "halide-auto")
            for config in alone
        },
        C: partial(by_c, problem, workers),
        TEXTBOOK: partial(by_config, problem, textbook, "halide"),
        BEST: partial(by_search, problem, generator="portfolio", workers=workers, **asked),
    }


def begun(kernel: str, asked: Asked) -> Row:
    """One kernel's row, with nothing in it yet."""
    problem = find_problem(kernel, None, DEFAULT_TARGET, "static")
    work = find_kernel(kernel).work(problem.workload.params)
    return {
        "kernel": kernel,
        "workload": problem.workload.label,
        **asked,
        "code": code_digest(),
        "peak_cycles": work.peak_cycles(problem.target),
        "cells": {},
    }


def complete(row: Row, asked: Asked, workers: int, keep: Callable[[], None]) -> None:
    """Measures what is missing in ``row``; seconds to some minutes. Calls ``keep`` after each."""
    problem = find_problem(row["kernel"], None, DEFAULT_TARGET, "static")
    cells = row["cells"]
    sys.stderr.write(f"{problem.workload.label}\n")
    for name, way in ways(problem, asked, workers).items():
        if name not in cells:
            cells[name] = made = way()
            keep()
            said = f"{made['packets']:,} packets" if made["outcome"] == "ok" else made["outcome"]
            sys.stderr.write(f"  {name}: {said}\n")


def code_digest() -> str:
    """Names the code that decides the figures: rows of other code do not stand beside these."""
    folder = Path(tuner.__file__).parent
    found = [p for p in sorted(folder.rglob("*")) if p.suffix in {".py", ".c", ".h", ".S", ".toml"}]
    return digest_of_bytes(b"\0".join(path.read_bytes() for path in found))[:16]


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
        cycles = row["cells"][BEST].get("cycles")
        share = f"{row['peak_cycles'] / cycles:.0%}" if cycles else "-"
        table.add_row(row["workload"], *cells, by, share + ("" if holds(row) else " !"))
    Console(width=180).print(table)


def _shown(made: Cell) -> str:
    if made["outcome"] != "ok":
        return str(made["outcome"]).replace("_", " ")
    return f"{made['packets']:,}\n{made['cycles']:,}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kernels", nargs="*", default=kernel_names())
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--json", type=Path, metavar="FILE", help="keeps rows, and takes them up")
    given = parser.parse_args(arguments)
    asked: Asked = {"trials": given.trials, "seed": given.seed}
    file: Path | None = given.json
    rows: list[Row] = json.loads(file.read_text()) if file and file.exists() else []
    wanted = {**asked, "code": code_digest()}.items()
    rows = [row for row in rows if wanted <= row.items()]

    def keep() -> None:
        if file is not None:
            made = file.with_suffix(".new")
            made.write_text(json.dumps(rows, indent=1) + "\n")
            made.replace(file)

    for kernel in given.kernels:
        row = next((row for row in rows if row["kernel"] == kernel), None)
        if row is None:
            row = begun(kernel, asked)
            rows.append(row)
        complete(row, asked, given.workers, keep)
    shown = [row for row in rows if row["kernel"] in given.kernels]
    print_rows(shown)
    return 0 if all(map(holds, shown)) else 1


if __name__ == "__main__":
    sys.exit(main())
