"""Prices the embedded simulator: overhead, analysis time, determinism, and what assumptions decide.

    python -m benchmarks.simulator [--repeats 5] [--schedules 16] [--ranks-only] [KERNEL ...]

Overhead is the processor time of a run with the plugin over that of the same program, on the same
cases, under plain qemu-hexagon: counting packets and dependency stalls, and with caches as well.
The bars are held by all variants together: in a run of a few milliseconds loading the plugin,
closing the sandbox and reading the disassembly of the code once weigh more than what is counted.
Rank sensitivity orders a fixed set of schedules of each kernel by modelled cycles, sets one assumed
cost to the least and the most that the model's file gives for it (sizes are halved and doubled),
and prints Kendall's tau between both orders and what the best of the first loses in the second. The
exit status is 1 if a bar is not met.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks.rank_sensitivity import print_sensitivity
from tuner.codegen import CodeGenerator, find_generator
from tuner.jobs.one_config import named_config
from tuner.jobs.tuning import find_problem
from tuner.kernels import kernel_names
from tuner.measure.cases import cases_of, poison_descriptor
from tuner.measure.image import Image, image_of
from tuner.measure.qemu.measurer import TIMEOUT_S
from tuner.measure.qemu.model import find_model
from tuner.measure.qemu.session import Caches, Orders, Session
from tuner.measure.qemu.simulation import (
    ImageMemory,
    Program,
    Timing,
    judge,
    linked,
    run,
    timing_of,
)
from tuner.measure.qemu.simulator import find_simulator
from tuner.records.candidate import Artifact, Candidate, Problem

COUNTING_LIMIT, CACHES_LIMIT, ANALYSIS_LIMIT_S = 1.1, 1.6, 0.020
DETERMINISM_RUNS = 10
CONFIGS = ("default", "textbook")


@dataclass(frozen=True)
class Variant:
    """A compiled candidate with its cases."""

    label: str
    problem: Problem
    artifact: Artifact
    image: Image


@dataclass(frozen=True)
class Row:
    """One variant's line of the table. ``plain_s``, ``counting_s`` and ``caches_s`` are processor
    seconds of the quickest run each way. ``results`` counts the different ones of all runs."""

    label: str
    plain_s: float
    counting_s: float
    caches_s: float
    analysis_s: float
    cycles: int
    core_cycles: int
    results: int


def variants(kernels: list[str], generator: CodeGenerator) -> list[Variant]:
    """Every kernel at its default shape, with its default and its textbook schedule."""
    found = []
    for kernel in kernels:
        problem = find_problem(kernel, None, "hexagon-v66", "static")
        # The practice call is there in every run, so that all runs do the same.
        image = image_of(cases_of(problem), problem.target, practice_calls=1)
        for name in CONFIGS:
            config = named_config(problem, name)
            assert config is not None  # noqa: S101
            artifact = generator.compile(Candidate(problem, config))
            found.append(Variant(f"{kernel} {name}", problem, artifact, image))
    return found


def processor_seconds() -> float:
    """Of all children so far: unlike wall time it does not grow with what else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def plain_run(variant: Variant, program: Program) -> float:
    """Processor seconds without the plugin."""
    before = processor_seconds()
    with ImageMemory(variant.image) as memory:
        subprocess.run(
            [*find_simulator().command, "-0", "candidate", program.path],
            stdin=memory.descriptor,
            stdout=poison_descriptor(),
            pass_fds=(program.descriptor,),
            env={},
            check=True,
        )
    return processor_seconds() - before


@dataclass(frozen=True)
class Run:
    """A run with the plugin: processor seconds of QEMU, wall seconds of the analysis after it."""

    spent_s: float
    analysis_s: float
    timing: Timing


def simulated_run(variant: Variant, program: Program, caches: Caches) -> Run:
    """Runs ``program`` with the plugin, always with the same calls."""
    target = variant.problem.target
    model = find_model(target.arch)
    orders = Orders(model, target, caches=caches, candidate_bytes=program.code_bytes)
    before = processor_seconds()
    with Session(orders) as session, ImageMemory(variant.image) as memory:
        ending = run(find_simulator(), program, session, memory.descriptor, TIMEOUT_S)
        spent_s = processor_seconds() - before
        results = session.results()
        judge(ending, results, program, variant.image, memory.contents(), target, TIMEOUT_S)
        start = time.perf_counter()
        timing = timing_of(session.results(), model, target.hvx_contexts)
        return Run(spent_s, time.perf_counter() - start, timing)


def measure(variant: Variant, repeats: int) -> Row:
    """Runs one variant in every way, in turn, so that all see the same machine."""
    with linked(variant.artifact, variant.problem.target.arch) as program:
        plain, counting, caches = [], [], []
        for _ in range(repeats):
            plain.append(plain_run(variant, program))
            counting.append(simulated_run(variant, program, "none"))
            caches.append(simulated_run(variant, program, "warm"))
        again = [simulated_run(variant, program, "warm") for _ in range(DETERMINISM_RUNS)]
    results = {(r.timing.core_cycles, tuple(r.timing.breakdown.items())) for r in again}
    return Row(
        label=variant.label,
        plain_s=min(plain),
        counting_s=min(r.spent_s for r in counting),
        caches_s=min(r.spent_s for r in caches),
        analysis_s=statistics.median(r.analysis_s for r in again),
        cycles=again[0].timing.cycles,
        core_cycles=again[0].timing.core_cycles,
        results=len(results),
    )


def print_rows(rows: list[Row]) -> bool:
    """Prints the table; whether every bar is met."""
    from rich.console import Console
    from rich.table import Table

    table = Table("variant", title=f"one run with all its cases; {DETERMINISM_RUNS} runs each")
    for heading in (
        "plain ms",
        "counting ms",
        "caches ms",
        "analysis ms",
        "cycles",
        "core",
        "results",
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row.label,
            f"{row.plain_s * 1000:.0f}",
            *(f"{t * 1000:.0f} {t / row.plain_s:.2f}x" for t in (row.counting_s, row.caches_s)),
            f"{row.analysis_s * 1000:.1f}",
            f"{row.cycles:,}",
            f"{row.core_cycles:,}",
            "the same" if row.results == 1 else f"{row.results} different",
        )
    console = Console(width=120)
    console.print(table)
    plain_s = sum(r.plain_s for r in rows)
    for name in ("counting", "caches"):
        more_ms = [(getattr(row, f"{name}_s") - row.plain_s) * 1000 for row in rows]
        console.print(f"{name}: {min(more_ms):.0f} to {max(more_ms):.0f} ms a run more than plain")
    bars = (
        ("counting, all variants", sum(r.counting_s for r in rows) / plain_s, COUNTING_LIMIT),
        ("caches, all variants", sum(r.caches_s for r in rows) / plain_s, CACHES_LIMIT),
        ("analysis, slowest, in s", max(r.analysis_s for r in rows), ANALYSIS_LIMIT_S),
        ("different results, most", max(r.results for r in rows), 1),
    )
    for name, value, limit in bars:
        met = "met" if value <= limit else "MISSED"
        console.print(f"{name}: {value:.3g}, at most {limit:g}: {met}")
    return all(value <= limit for _, value, limit in bars)


def main() -> int:
    """Runs the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kernels", nargs="*", default=kernel_names())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--schedules", type=int, default=16, help="of each kernel, for the ranks")
    parser.add_argument("--ranks-only", action="store_true", help="leave the prices out")
    given = parser.parse_args()
    with find_generator("halide")(1) as generator:
        met = True
        if not given.ranks_only:
            rows = [measure(v, given.repeats) for v in variants(given.kernels, generator)]
            met = print_rows(rows)
        if given.schedules:
            print_sensitivity(given.kernels, given.schedules, generator)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
