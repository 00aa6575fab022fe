"""The benchmark ``expressions``: each is a program that HVX code is made of."""

from __future__ import annotations

import pytest

from benchmarks import harness
from benchmarks.expressions import EXPRESSIONS
from tuner.codegen.hvx.generator import plan_of
from tuner.codegen.hvx.pointwise import Pointwise
from tuner.jobs.tuning import find_problem, keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.default_target import DEFAULT_TARGET


@pytest.mark.slow
def test_each_expression_has_a_plan():
    for one in EXPRESSIONS.values():
        kernel = keep_pipeline(one.pipeline())
        problem = find_problem(kernel, {"x": 256, "y": 2}, DEFAULT_TARGET, "static")
        assert isinstance(plan_of(find_kernel(kernel), problem), Pointwise)


@pytest.mark.slow
def test_rows_keep_to_their_lines(capsys):
    asked = ["u8_sat(u8 + u8)", "u8 / u8"]
    assert harness.run("expressions", ["--generator", "hvx", *asked]) == 0
    told = capsys.readouterr().out
    assert all(f"| {name} |" in told for name in asked)
