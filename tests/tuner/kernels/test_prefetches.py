"""Inputs that L2 does not hold are asked for ahead: which kernels do, and what it saves."""

from __future__ import annotations

from random import Random

import pytest

from tuner.codegen import find_generator
from tuner.executor.evaluation import Evaluator
from tuner.kernels import find_kernel
from tuner.measure import find_measurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.problem.workload import Problem
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome
from tuner.space import Config

TARGET = find_target("hexagon-v66")
STREAMING = {
    "add_u8": {"width": 1024, "height": 512},
    "rgb_to_gray_u8": {"width": 1024, "height": 320},
    "gaussian5x5_u8": {"width": 1024, "height": 640},
    "resize_bilinear_u8": {"width": 1024, "height": 1024},
    "avg_pool_u8": {"width": 48, "height": 48, "channels": 128},
    "depthwise_conv2d_u8": {"width": 96, "height": 96, "channels": 96, "stride": 2},
    "conv2d_u8": {"width": 96, "height": 96, "channels_in": 16, "channels_out": 112},
    "gemm_u8": {"m": 64, "n": 1024, "k": 1024},
    "gemm_i8": {"m": 64, "n": 1024, "k": 1024},
}
CLASSIFIER = {"height": 1, "width": 1, "channels_in": 1280, "channels_out": 1000}
"""Of MobileNetV2: weights of 1.3 MB for one pixel."""
MEASURED = STREAMING | {"conv2d_u8": CLASSIFIER}
PRODUCTS = ("gemm_u8", "gemm_i8")
PAYS = {"rgb_to_gray_u8": 2.0, "conv2d_u8": 2.0}
"""How many times the cycles it takes without, at least."""


def streaming(kernel: str, contract: Contract = Contract.STATIC) -> Problem:
    return find_kernel(kernel).problem(STREAMING[kernel], contract, TARGET)


def measured(kernel: str) -> Problem:
    return find_kernel(kernel).problem(MEASURED[kernel], Contract.STATIC, TARGET)


def with_distance(config: Config, distance: int) -> Config:
    return Config({**config.as_dict(), "prefetch": distance})


@pytest.mark.parametrize("kernel", [name for name in STREAMING if name not in PRODUCTS])
def test_every_schedule_asks_for_every_image(kernel):
    found, problem = find_kernel(kernel), streaming(kernel, Contract.NONE)
    space = found.space(problem)
    images = {
        spec.name
        for spec in found.buffers(problem.workload.params)
        if spec.role == "input" and spec.payload_bytes > TARGET.l1d_bytes
    }
    for seed in range(8):
        config = space.sample(Random(seed))
        if config.get("lanes") == 1:  # without a schedule
            continue
        for distance in (0, 2):
            directives = found.schedule(problem, with_distance(config, distance))
            asked = [d.args for d in directives if d.op == "prefetch"]
            assert {args[0] for args in asked} >= (images if distance else set())
            assert not asked or distance
            far = [args[-1] for args in asked if args[0] in images]
            assert all(isinstance(rows, int) and rows >= distance for rows in far)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", PAYS)
def test_what_was_asked_for_in_time_is_not_waited_for(kernel):
    found, problem = find_kernel(kernel), measured(kernel)
    textbook = found.textbook_config(problem)
    drawn = [found.space(problem).sample(Random(seed)) for seed in range(2)]
    with find_generator("halide")(2) as generator, find_measurer("qemu")() as measurer:
        evaluator = Evaluator(generator, measurer)
        ahead, late, *others = (
            evaluator.evaluate(Candidate(problem, config), number=number, origin="test").trial
            for number, config in enumerate(
                [textbook, with_distance(textbook, 0), *(with_distance(one, 1) for one in drawn)]
            )
        )
        code = generator.compile(Candidate(problem, textbook), with_assembly=True)
    assert b"l2fetch" in code.files["assembly"]
    assert [trial.outcome for trial in (ahead, late, *others)] == [Outcome.OK] * 4
    assert late.measurement.cycles > PAYS[kernel] * ahead.measurement.cycles
