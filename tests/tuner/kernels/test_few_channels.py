"""Channels that fill no vector, or one and a lane: schedules of each are right."""

from __future__ import annotations

import pytest

from tuner.codegen import find_generator
from tuner.executor.evaluation import Evaluator
from tuner.kernels import find_kernel
from tuner.measure import find_measurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate

IMAGE = {"height": 5, "width": 7}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "channels", "which"),
    [
        ("conv2d_u8", {"channels_in": 4, "channels_out": 29}, "default"),
        ("qconv2d_u8", {"channels_in": 8, "channels_out": 33}, "textbook"),
        ("qdepthwise_conv2d_u8", {"channels": 97}, "default"),
    ],
)
def test_few_channels_are_right(name: str, channels: dict[str, int], which: str):
    kernel = find_kernel(name)
    problem = kernel.problem({**IMAGE, **channels}, Contract.STATIC, find_target("hexagon-v66"))
    is_default = which == "default"
    config = (kernel.default_config if is_default else kernel.textbook_config)(problem)
    with find_generator("halide")(1) as generator, find_measurer("qemu")() as measurer:
        evaluator = Evaluator(generator, measurer)
        trial = evaluator.evaluate(Candidate(problem, config), number=0, origin=which).trial
        assert trial.measurement, trial.error
