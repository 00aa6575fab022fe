"""Code by ``hvx``: of a config that dice choose, and of the textbook's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from tuner.codegen.hvx.generator import HvxGenerator, plan_of
from tuner.codegen.hvx.plan import Plan
from tuner.conformance.patience import PATIENCE_S
from tuner.kernels import find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.records.candidate import Candidate, Measurement, Problem
from tuner.space import Config


def require_right(problem: Problem, dice: random.Random, kind: type[Plan]) -> None:
    """That ``problem`` has a plan of ``kind``, and that of a config its outputs are verified."""
    kernel = find_kernel(problem.workload.kernel)
    assert isinstance(plan_of(kernel, problem), kind)
    space = HvxGenerator.space(kernel, problem)
    config = space.config({knob.name: dice.choice(knob.choices) for knob in space.knobs})
    assert measured(problem, config).verified, (problem, config)


def by_the_textbook(problem: Problem) -> Measurement:
    """What the textbook's config takes, verified."""
    kernel = find_kernel(problem.workload.kernel)
    found = measured(problem, HvxGenerator.starts(kernel, problem)["textbook"])
    assert found.verified
    return found


def measured(problem: Problem, config: Config) -> Measurement:
    """What a config takes."""
    generator, measurer = _workshop()
    artifact = generator.compile(Candidate(problem, config, "hvx"))
    return measurer.measure(problem, artifact).measurement


@contextmanager
def kept_open() -> Iterator[None]:
    """Closes at last what tests compile and measure with: opening both takes longer than most."""
    with _OPEN:
        yield
    _workshop.cache_clear()


_OPEN = ExitStack()


@cache
def _workshop() -> tuple[HvxGenerator, QemuMeasurer]:
    generator = _OPEN.enter_context(HvxGenerator(1, time_limit_s=PATIENCE_S))
    return generator, _OPEN.enter_context(QemuMeasurer())
