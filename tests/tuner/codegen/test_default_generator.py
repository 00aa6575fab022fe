"""Which generator makes code where nobody names one: of jobs, and of single configs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.cli.measurement import read_config
from tuner.codegen import starts_of
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

GEMM = find_kernel("gemm_u8")


@pytest.fixture
def problem() -> Problem:
    return GEMM.problem({}, Contract.STATIC, find_target("hexagon-v66"))


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
