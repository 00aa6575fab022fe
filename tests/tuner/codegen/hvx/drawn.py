"""Code by ``hvx`` of a config that dice choose."""

from __future__ import annotations

import random

from tuner.codegen.hvx.generator import HvxGenerator
from tuner.conformance.patience import PATIENCE_S
from tuner.kernels import find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.records.candidate import Candidate, Problem


def require_right(problem: Problem, dice: random.Random) -> None:
    """Compiles a config of ``problem`` and verifies its outputs."""
    space = HvxGenerator.space(find_kernel(problem.workload.kernel), problem)
    config = space.config({knob.name: dice.choice(knob.choices) for knob in space.knobs})
    with HvxGenerator(1, time_limit_s=PATIENCE_S) as generator, QemuMeasurer() as measurer:
        artifact = generator.compile(Candidate(problem, config, "hvx"))
        assert measurer.measure(problem, artifact).measurement.verified, (problem, config)
