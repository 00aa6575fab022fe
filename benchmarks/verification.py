"""Prices verification: what the cases beside the timed one cost, for every kernel.

Of each kernel's textbook schedule, the processor time of a run with all cases and of one with the
timed case alone, both with practice call and memory costs. Processor time does not grow with what
else the machine does, so that tables of two versions can be compared. ``making`` is the wall time
of inputs and references, which is spent once a problem.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import dataclass

from benchmarks.harness import Report, add_names
from tuner.codegen import CodeGenerator, find_generator
from tuner.jobs.one_config import named_config
from tuner.jobs.tuning import find_problem
from tuner.kernels import kernel_names
from tuner.measure.cases import CaseSet, cases_of
from tuner.measure.image import Image, image_of
from tuner.measure.qemu.measurer import TIMEOUT_S
from tuner.measure.qemu.model import find_model
from tuner.measure.qemu.session import Orders
from tuner.measure.qemu.simulation import simulate
from tuner.problem.contract import find_contract
from tuner.records.candidate import Artifact, Candidate, Problem


@dataclass(frozen=True)
class Row:
    """Seconds: of the quickest run with all cases, of the quickest with the timed one."""

    cases: int
    all_s: float
    timed_s: float
    making_s: float


def processor_seconds() -> float:
    """Of all children so far: unlike wall time it does not grow with what else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def spent_s(problem: Problem, artifact: Artifact, image: Image) -> float:
    """Processor seconds of one run."""
    orders = Orders(find_model(problem.target.arch), problem.target)
    before = processor_seconds()
    simulate(artifact, image, orders, TIMEOUT_S)
    return processor_seconds() - before


def measure(problem: Problem, generator: CodeGenerator, repeats: int) -> Row:
    """Prices the textbook schedule of ``problem``."""
    config = named_config(problem, "textbook")
    assert config is not None  # noqa: S101
    artifact = generator.compile(Candidate(problem, config))
    start = time.perf_counter()
    cases = cases_of(problem)
    making_s = time.perf_counter() - start
    every = image_of(cases, problem.target, practice_calls=1)
    timed = image_of(CaseSet(cases.cases[:1]), problem.target, practice_calls=1)
    pairs = [[spent_s(problem, artifact, one) for one in (every, timed)] for _ in range(repeats)]
    all_s, timed_s = (min(times) for times in zip(*pairs, strict=True))
    return Row(len(cases.cases), all_s, timed_s, making_s)


def options(parser: argparse.ArgumentParser) -> None:
    """Which kernels, and how often each is run."""
    add_names(parser, "KERNEL", kernel_names())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--contract", default="none", type=find_contract)


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells a row for each kernel."""
    columns = {"all, ms": ".1f", "timed, ms": ".1f", "making, ms": ".1f"}
    report.table({"kernel": "", "cases": ",", **columns})
    total_s = 0.0
    with find_generator("halide")(1) as generator:
        for kernel in given.names:
            problem = find_problem(kernel, None, "hexagon-v66", given.contract)
            row = measure(problem, generator, given.repeats)
            total_s += row.all_s
            times = (row.all_s, row.timed_s, row.making_s)
            report.row(kernel, row.cases, *(1e3 * seconds for seconds in times))
    report.row("together", None, 1e3 * total_s, None, None)
