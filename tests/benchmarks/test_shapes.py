"""The benchmark ``shapes`` draws awkward shapes, and tells cliffs and what is not right."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks import harness
from benchmarks.shapes import BESIDES_CYCLES, TIMES, Row, drawn
from tuner.jobs.one_config import measure, named_config
from tuner.jobs.tuning import find_problem
from tuner.kernels import find_kernel, kernel_names
from tuner.problem.contract import Contract
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.outcome import Outcome


def test_a_cliff_is_far_above_its_own_roofline():
    most = int(TIMES * 1000 + BESIDES_CYCLES)
    assert not Row("x", 1000, most, {}).is_cliff
    assert Row("x", 1000, most + 1, {}).is_cliff
    assert Row("x", 1000, None, {}).is_cliff


@pytest.mark.parametrize("name", kernel_names())
def test_drawn_shapes_are_a_kernels_own_and_no_more_work(name):
    kernel, dice = find_kernel(name), Random(7)
    usual = kernel.work(kernel.workload().params).total
    shapes = [drawn(kernel, Contract.STATIC, dice) for _ in range(5)]
    assert len({tuple(shape.values()) for shape in shapes}) > 1
    for shape in shapes:
        kernel.problem(shape, Contract.STATIC, DEFAULT_TARGET)
        assert kernel.work(shape).total <= usual


@pytest.mark.slow
@pytest.mark.parametrize("which", ["default", "textbook"])
@pytest.mark.parametrize(
    ("name", "width", "height"),
    # What Halide does not make in vectors: look-ups under a guard, clamped rows of few pixels.
    [("lut_u8", 38, 20), ("lut_u8", 127, 3), ("sobel_u8", 3, 102), ("gaussian5x5_u8", 4, 130)],
)
def test_short_rows_have_schedules_that_are_right(name, width, height, which):
    params = {"width": width, "height": height}
    problem = find_problem(name, params, DEFAULT_TARGET, "static")
    trial, _ = measure(problem, named_config(problem, which), generator="halide")
    assert trial.outcome is Outcome.OK, trial.error


@pytest.mark.slow
def test_it_tells_shapes_that_are_right(capsys):
    asked = ["box_blur_u8", "--shapes", "2", "--trials", "3", "--workers", "1", "--all"]
    harness.run("shapes", asked)
    printed = capsys.readouterr().out
    assert printed.count("| box_blur_u8 | ") == 2
    assert "of 2 shapes are cliffs" in printed
