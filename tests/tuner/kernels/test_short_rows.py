"""Rows of weights shorter than a vector: Halide reads whole ones, beyond the last row."""

from __future__ import annotations

import pytest

from tuner.jobs import one_config
from tuner.jobs.tuning import find_problem
from tuner.kernels import find_kernel
from tuner.records.outcome import Outcome


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["conv2d_u8", "qconv2d_u8"])
@pytest.mark.parametrize("channels_out", [10])
def test_convolutions_to_a_few_channels_read_their_weights_only(
    kernel: str, channels_out: int
) -> None:
    params = {"channels_in": 32, "channels_out": channels_out}
    problem = find_problem(kernel, params, "hexagon-v66", "static")
    config = find_kernel(kernel).textbook_config(problem)
    trial, _ = one_config.measure(problem, config, generator="halide")
    assert (trial.outcome, trial.error) == (Outcome.OK, None)
