"""The reference of an upload is an interpretation of its definitions. Hexagon code of the same
pipeline, made by Halide without a schedule and run in the simulator, has to agree with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rig.arithmetic_pipelines import EXPRESSIONS, SIZE, arithmetic_pipeline
from tests.rig.unseen_pipelines import SIZES, unseen_pipeline
from tuner.codegen import find_generator
from tuner.codegen.halide.uploads.contents import (
    checked,
    definitions_of,
    expressions_in,
    is_read,
)
from tuner.codegen.halide.uploads.intrinsics import INTRINSICS
from tuner.executor.evaluation import Evaluator
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.measure import find_measurer
from tuner.measure.qemu.simulator import QEMU_VARIABLE, find_simulator
from tuner.paths import CACHE_DIR_VARIABLE, STATE_DIR_VARIABLE
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome

TARGET = find_target("hexagon-v66")
NOT_WRITTEN = {"sorted_avg", "promise_clamped", "if_then_else"}
"""Halide's front end has no function for these; its simplifier and ``print_when`` make them."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State directory and cache without kept pipelines and references; with the simulator."""
    monkeypatch.setenv(QEMU_VARIABLE, find_simulator().command[-1])
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path))
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))


def outcome_without_schedule(data: bytes, sizes: dict[str, int]) -> tuple[Outcome, str]:
    kernel = find_kernel(keep_pipeline(data))
    problem = kernel.problem(sizes, Contract.STATIC, TARGET)
    candidate = Candidate(problem, kernel.default_config(problem))
    with find_generator("halide")(1) as generator, find_measurer("qemu")() as measurer:
        found = Evaluator(generator, measurer).evaluate(candidate, number=0, origin="default").trial
    return found.outcome, found.error or ""


@pytest.mark.slow
def test_every_intrinsic_is_in_a_pipeline() -> None:
    called = {
        node["name"]
        for name in EXPRESSIONS
        for func in checked(arithmetic_pipeline(name)).funcs.values()
        for root in definitions_of(func)
        for node in expressions_in(root)
        if node.kind == "Call" and not is_read(node)
    }
    assert called == INTRINSICS.keys() - NOT_WRITTEN


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_each_intrinsic_is_what_hexagon_code_makes_of_it(name: str) -> None:
    assert outcome_without_schedule(arithmetic_pipeline(name), SIZE) == (Outcome.OK, "")


@pytest.mark.nightly
@pytest.mark.parametrize("name", SIZES)
def test_each_pipeline_is_what_hexagon_code_makes_of_it(name: str) -> None:
    """CI sees it of most in ``test_unseen_pipelines``: their jobs begin with that candidate."""
    assert outcome_without_schedule(unseen_pipeline(name), SIZES[name]) == (Outcome.OK, "")
