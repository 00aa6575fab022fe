"""Prices verification: what the cases beside the timed one cost, for every kernel.

    python -m benchmarks.verification [--repeats 5] [--contract none] [KERNEL ...]

Of each kernel's textbook schedule, the processor time of a run with all cases and of one with the
timed case alone, both with practice call and memory costs. Processor time does not grow with what
else the machine does, so that tables of two versions can be compared. ``making`` is the wall time
of inputs and references, which is spent once a problem.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from benchmarks.simulator import processor_seconds
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kernels", nargs="*", default=kernel_names())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--contract", default="none", type=find_contract)
    arguments = parser.parse_args()
    print(f"{'kernel':24}{'cases':>6}{'all, ms':>10}{'timed, ms':>11}{'making, ms':>12}")
    with find_generator("halide")(1) as generator:
        total = 0.0
        for kernel in arguments.kernels:
            problem = find_problem(kernel, None, "hexagon-v66", arguments.contract)
            row = measure(problem, generator, arguments.repeats)
            total += row.all_s
            times = f"{row.all_s * 1e3:10.1f}{row.timed_s * 1e3:11.1f}{row.making_s * 1e3:12.1f}"
            print(f"{kernel:24}{row.cases:6}{times}", flush=True)
    print(f"{'together':30}{total * 1e3:10.1f}")


if __name__ == "__main__":
    main()
