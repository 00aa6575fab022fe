"""Executors: the built-in one passes the suite, and the environment chooses."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from tests.rig.stand_ins import StandInGenerator, StandInMeasurer
from tuner.conformance.candidates import scale_problem
from tuner.conformance.executors import ExecutorConformance
from tuner.errors import ToolchainError, UserError
from tuner.executor import EXECUTOR_VARIABLE, find_executor, open_executor
from tuner.executor.evaluation import Evaluation, Evaluator
from tuner.executor.executor import ThreadExecutor
from tuner.jobs.tuning import plan
from tuner.records.candidate import Candidate
from tuner.space import Config


class TestThreads(ExecutorConformance):
    name = "threads"


def submitted(evaluator: Evaluator, workers: int, count: int) -> list[Future[Evaluation]]:
    problem = scale_problem()
    with ThreadExecutor(evaluator, workers) as executor:
        return [
            executor.submit(
                Candidate(problem, Config({"vectors": number}), "stand-in"),
                number=number,
                origin="test",
                budget_cycles=None,
            )
            for number in range(count)
        ]


def test_a_broken_installation_is_raised_for_each() -> None:
    generator = StandInGenerator(fault=lambda config: ToolchainError("no compiler"))
    for future in submitted(Evaluator(generator, StandInMeasurer()), workers=2, count=3):
        with pytest.raises(ToolchainError, match="no compiler"):
            future.result()


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = Evaluator(StandInGenerator(), StandInMeasurer())
    with open_executor(evaluator, 1) as executor:
        assert isinstance(executor, ThreadExecutor)
    monkeypatch.setenv(EXECUTOR_VARIABLE, "thread")
    with pytest.raises(UserError, match="unknown executor 'thread'") as caught:
        find_executor()
    assert caught.value.next_step == "did you mean threads?"


def test_an_unknown_one_is_refused_before_a_job_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXECUTOR_VARIABLE, "cluster")
    with pytest.raises(UserError, match="cluster") as caught:
        plan("add_u8", trials=1)
    assert EXECUTOR_VARIABLE in caught.value.next_step
