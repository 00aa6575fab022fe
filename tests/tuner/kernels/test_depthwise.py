"""Depthwise layers of few channels."""

from __future__ import annotations

from tuner.codegen.halide.generator import HalideGenerator
from tuner.conformance.patience import PATIENCE_S
from tuner.kernels import find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate


def test_few_channels_read_nothing_beyond_the_weights():
    kernel = find_kernel("depthwise_conv2d_u8")
    sizes = {"height": 9, "width": 9, "channels": 11}
    problem = kernel.problem(sizes, Contract.STATIC, find_target("hexagon-v66"))
    config = HalideGenerator.starts(kernel, problem)["textbook"]
    with HalideGenerator(1, time_limit_s=PATIENCE_S) as generator, QemuMeasurer() as measurer:
        artifact = generator.compile(Candidate(problem, config, "halide"))
        assert measurer.measure(problem, artifact).measurement.verified
