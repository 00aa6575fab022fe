"""Rows of weights shorter than a vector: Halide reads whole ones, beyond the last row."""

from __future__ import annotations

import pytest

from tuner.jobs import one_config
from tuner.jobs.tuning import find_problem
from tuner.kernels import find_kernel
from tuner.records.outcome import Outcome


@pytest.mark.slow
def test_a_convolution_to_a_few_channels_reads_its_weights_only() -> None:
    params = {"height": 4, "width": 4, "channels_in": 32, "channels_out": 10}
    problem = find_problem("qconv2d_u8", params, "hexagon-v66", "static")
    config = find_kernel("qconv2d_u8").textbook_config(problem)
    trial, _ = one_config.measure(problem, config, generator="halide")
    assert (trial.outcome, trial.error) == (Outcome.OK, None)
