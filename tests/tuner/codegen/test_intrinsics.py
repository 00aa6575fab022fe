"""Layers in intrinsics against their references: odd shapes, every tile."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.codegen.intrinsics.conv2d import _delta
from tuner.codegen.intrinsics.generator import IntrinsicsGenerator
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import UserError
from tuner.kernels import find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate, Problem
from tuner.space import KnobValue

TARGET = find_target("hexagon-v66")
LANES = TARGET.lanes(4)


@pytest.fixture(scope="module")
def generator():
    with IntrinsicsGenerator(1, time_limit_s=PATIENCE_S) as made:
        yield made


def problem_of(kernel: str, contract: Contract = Contract.STATIC, **params: int) -> Problem:
    return find_kernel(kernel).problem(params, contract, TARGET)


def measured(generator: IntrinsicsGenerator, problem: Problem, **knobs: KnobValue):
    kernel = find_kernel(problem.workload.kernel)
    start = generator.starts(kernel, problem)["textbook"]
    config = generator.space(kernel, problem).nearest_config({**start, **knobs})
    assert {**config, **knobs} == dict(config)
    artifact = generator.compile(Candidate(problem, config, generator.name))
    with QemuMeasurer() as measurer:
        return measurer.measure(problem, artifact).measurement


@pytest.mark.slow
@pytest.mark.parametrize(
    "params",
    [
        {"height": 7, "width": 7, "channels_in": 144, "channels_out": 16},
        {"height": 9, "width": 67, "channels_in": 4, "channels_out": 32, "size": 3, "stride": 2},
        {"height": 5, "width": 70, "channels_in": 4, "channels_out": 8, "size": 4, "stride": 2},
    ],
)
def test_convolutions_with_pixels_in_lanes_are_right(generator, params):
    assert measured(generator, problem_of("conv2d_u8", **params)).verified


@pytest.mark.slow
@pytest.mark.parametrize(
    ("params", "knobs"),
    [
        ({"height": 7, "width": 12, "channels": 32}, {"reg_pixels": 4, "reg_apart": "on"}),
        ({"height": 9, "width": 6, "channels": 144, "stride": 2}, {"reg_walk": "pixels"}),
        ({"height": 3, "width": 1, "channels": 1, "stride": 2, "zero_in": 0}, {}),
        ({"height": 4, "width": 14, "channels": 192, "stride": 2}, {"reg_unroll": 3}),
        ({"height": 2, "width": 2, "channels": 200, "stride": 2, "zero_in": 3}, {}),
    ],
)
def test_depthwise_convolutions_are_right(generator, params, knobs):
    assert measured(generator, problem_of("depthwise_conv2d_u8", **params), **knobs).verified


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "params", "knobs"),
    [
        ("conv", {"height": 7, "width": 7, "channels_in": 12, "channels_out": 40}, {}),
        ("conv", {"height": 5, "width": 140}, {"reg_rows": 16, "reg_vectors": 1, "reg_unroll": 1}),
        ("conv", {"height": 9, "width": 67, "channels_in": 4, "size": 3, "stride": 2}, {}),
        ("depthwise_conv", {"height": 5, "width": 31, "channels": 12}, {"reg_columns": 3}),
        ("depthwise_conv", {"height": 2, "width": 3, "channels": 4, "stride": 2}, {}),
        ("expanded_conv", {"height": 8, "width": 9, "stride": 2}, {"reg_columns": 1}),
    ],
)
def test_layers_in_channel_blocks_are_right(generator, name, params, knobs):
    """`measured` verifies on several inputs; what is around the image counts, too."""
    problem = problem_of(f"blocked:q{name.replace('conv', 'conv2d_u8')}", **params)
    assert measured(generator, problem, **knobs).verified


@pytest.mark.parametrize(
    ("contract", "params", "reason"),
    [
        (Contract.NONE, {}, "its shape is open"),
        (Contract.STATIC, {"size": 2}, "windows of several pixels need size=3"),
    ],
)
def test_a_layer_in_blocks_that_does_not_fit_is_refused(contract, params, reason):
    kernel = find_kernel("blocked:qconv2d_u8")
    with pytest.raises(UserError, match=reason):
        IntrinsicsGenerator.space(kernel, kernel.problem(params, contract, TARGET))


@pytest.mark.parametrize(
    ("contract", "params", "reason"),
    [
        (Contract.NONE, {}, "its shape is open"),
        (Contract.STATIC, {"height": 5, "width": 5}, "fewer than 32 pixels"),
        (Contract.STATIC, {"channels_in": 4 * 17}, "odd factor"),
    ],
)
def test_a_convolution_that_does_not_fit_is_refused_with_the_reason(contract, params, reason):
    problem = problem_of("conv2d_u8", contract, **params)
    with pytest.raises(UserError, match=reason):
        IntrinsicsGenerator.space(find_kernel("conv2d_u8"), problem)


@pytest.mark.parametrize("odd", [3, 15])
def test_a_delta_network_spreads_words_by_odd_steps(odd):
    """The network as the HVX manual has it: from the lowest bit on, a lane takes its own or the one
    whose number differs in that bit."""
    for first in range(odd):
        to = [(odd * lane + first) % LANES for lane in range(LANES)]
        control, values = _delta(to), np.arange(LANES)
        for bit in (1, 2, 4, 8, 16):
            other = values[np.arange(LANES) ^ bit]
            values = np.where(np.array(control) & 4 * bit, other, values)
        assert [int(values[goal]) for goal in to] == list(range(LANES))
