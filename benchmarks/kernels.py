"""What each way of making a kernel's code comes to, beside the best of a search.

Prints packets and cycles of every kernel at its default shape: without a schedule, by each of
Halide's autoschedulers (what is wrong or fails is named as such), by auto-vectorized C (its best
point), by the textbook schedule, and by the best of a search with the generator ``portfolio``. All
compile in the same contained processes, and every output is verified. Each cell is kept as soon as
it is known; a later run goes on from there, unless the code of ``tuner`` is not what it was. It
fails if a best is not the lowest of its row, in packets and in cycles.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import tuner
from benchmarks.harness import (
    Kept,
    Report,
    add_names,
    add_search_options,
    searched_with,
    tell,
)
from tuner.codegen import space_of
from tuner.codegen.generator import GENERATOR
from tuner.errors import UserError
from tuner.identity import digest_of, digest_of_bytes
from tuner.jobs.one_config import measure, named_config
from tuner.jobs.tuning import find_problem
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel, kernel_names
from tuner.measure.roofline import roofline_of
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


def cell(trial: Trial) -> Cell:
    """What a table says of ``trial``."""
    found = trial.measurement
    if found is None:
        return {"outcome": trial.outcome.value, "error": (trial.error or "")[:200]}
    told = {"packets": found.packets, "cycles": found.cycles, "told": found.cycles_text}
    return {"outcome": "ok", **told}


def by_config(problem: Problem, config: Config, generator: str) -> Cell:
    """One config by itself."""
    return cell(measure(problem, config, generator=generator)[0])


def by_search(problem: Problem, **options: Any) -> Cell:
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
        tell(f"    {progress.finished} trials: {best.cycles:,} cycles")


def by_c(problem: Problem, workers: int) -> Cell:
    """The best of all points of plain C."""
    kernel = find_kernel(problem.workload.kernel)
    try:
        every = space_of("c-autovec", kernel, problem).count(1000)
    except UserError:  # a package's kernel need not state its program
        return {"outcome": "no C"}
    return by_search(problem, generator="c-autovec", sampler="brute", trials=every, workers=workers)


def ways(problem: Problem, how: Mapping[str, Any]) -> dict[str, Callable[[], Cell]]:
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
        C: partial(by_c, problem, how["workers"]),
        TEXTBOOK: partial(by_config, problem, textbook, "halide"),
        BEST: partial(by_search, problem, **how),
    }


def cells_of(problem: Problem, how: Mapping[str, Any], kept: Kept) -> dict[str, Cell]:
    """A kernel's row: what is not kept is measured, in seconds to some minutes."""
    tell(problem.workload.label)
    asked = {name: value for name, value in how.items() if name != "workers"}
    cells = {}
    for name, way in ways(problem, how).items():
        key = digest_of([problem.digest, name, asked, code_digest()])
        if key not in kept:
            kept[key] = way()
            made = kept[key]
            said = f"{made['packets']:,} packets" if made["outcome"] == "ok" else made["outcome"]
            tell(f"  {name}: {said}")
        cells[name] = kept[key]
    return cells


@cache
def code_digest() -> str:
    """Names the code that decides the figures: rows of other code do not stand beside these."""
    folder = Path(tuner.__file__).parent
    found = [p for p in sorted(folder.rglob("*")) if p.suffix in {".py", ".c", ".h", ".S", ".toml"}]
    return digest_of_bytes(b"\0".join(path.read_bytes() for path in found))[:16]


def holds(cells: Mapping[str, Cell]) -> bool:
    """Whether the best found is the lowest of its row."""
    best = cells[BEST]
    rest = [made for made in cells.values() if made["outcome"] == "ok"]
    return best["outcome"] == "ok" and all(
        best[figure] <= made[figure] for made in rest for figure in ("packets", "cycles")
    )


def _shown(made: Cell) -> str:
    if made["outcome"] != "ok":
        return str(made["outcome"]).replace("_", " ")
    return f"{made['packets']:,} / {made['told']}"


def options(parser: argparse.ArgumentParser) -> None:
    """Which kernels, and how they are searched."""
    add_names(parser, "KERNEL", kernel_names())
    add_search_options(parser, trials=200)
    kept = Path("build/bench/kernels.jsonl")
    parser.add_argument("--kept", type=Path, metavar="FILE", default=kept, help=f"{kept}")


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells a row for each kernel."""
    kept = Kept(given.kept)
    is_begun = False
    for name in given.names:
        problem = find_problem(name, None, DEFAULT_TARGET, "static")
        cells = cells_of(problem, searched_with(given), kept)
        if not is_begun:
            names = ["no schedule" if way == "none" else way for way in cells]
            columns = dict.fromkeys(("workload", *names, "by"), "")
            report.table(
                {**columns, "of roofline": ".0%"}, "packets / cycles, all outputs verified"
            )
            is_begun = True
        best = cells[BEST]
        share = roofline_of(problem).cycles / best["cycles"] if best["outcome"] == "ok" else None
        by = best.get("config", {}).get("generator", "-")
        report.row(problem.workload.label, *map(_shown, cells.values()), by, share)
        if not holds(cells):
            report.fault(f"{name}: the best is not the lowest of its row")
