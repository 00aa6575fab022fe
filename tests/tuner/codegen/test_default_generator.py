"""Which generator makes code where nobody names one: of jobs, and of single configs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.cli.measurement import read_config
from tests.rig.scale_u8 import ScaleU8
from tuner.codegen import generator_of, space_of, starts_of
from tuner.codegen.portfolio import GENERATOR
from tuner.executor.baselines import baseline_of
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem
from tuner.records.request import DEFAULT_GENERATOR
from tuner.space import Config

GEMM = find_kernel("gemm_u8")


class Packaged(ScaleU8):
    """A kernel with its own way to an object."""

    generator = "package"


@pytest.fixture
def problem() -> Problem:
    return GEMM.problem({}, Contract.STATIC, find_target("hexagon-v66"))


def test_a_single_config_says_what_makes_its_code(problem: Problem) -> None:
    schedule = GEMM.textbook_config(problem)
    assert generator_of(GEMM, schedule) == "halide"
    for config in starts_of(None, GEMM, problem).values():
        assert generator_of(GEMM, config) == "portfolio"
    assert generator_of(Packaged(), {GENERATOR: "a knob of the package"}) == "package"


@pytest.mark.parametrize("name", ["portfolio", "intrinsics", "halide"])
def test_a_stored_config_is_found_with_what_made_it(
    name: str, problem: Problem, tmp_path: Path
) -> None:
    """As ``best --json`` writes it."""
    config = starts_of(name, GEMM, problem)["textbook"]
    file = tmp_path / "best.json"
    file.write_text(json.dumps({"config": config.as_dict(), "generator": name, "cycles": 1}))
    found = read_config(problem, "warm", "--config", str(file))
    assert (found.config, found.generator) == (config, name)
    if name in ("portfolio", "halide"):  # told by the knobs alone
        file.write_text(config.json)
        assert read_config(problem, "warm", "--config", str(file)) == found


def test_the_baseline_of_a_portfolio_may_be_a_schedule_that_names_no_generator(
    problem: Problem,
) -> None:
    space, schedule = space_of(None, GEMM, problem), GEMM.textbook_config(problem)
    found = baseline_of(schedule.json, DEFAULT_GENERATOR, GEMM, problem, space)
    assert found is not None
    assert found.config == Config({GENERATOR: "halide", **schedule})
