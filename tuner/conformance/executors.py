"""The conformance suite of executors: what :class:`tuner.executor.Executor` promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from tuner.codegen import find_generator
from tuner.executor import executor_names, find_executor
from tuner.executor.evaluation import Evaluator
from tuner.kernels import find_kernel
from tuner.measure.measurer import ALL_DEVICES
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome

WORKERS = 2
GENERATOR = "halide"


class ExecutorConformance:
    """Inherit it and name the executor as registered: ``name = "threads"``.

    Its candidates are compiled and measured for real, as an executor may evaluate them elsewhere.
    """

    name: ClassVar[str]

    @pytest.fixture
    def evaluator(self) -> Iterator[Evaluator]:
        made_by = find_executor(self.name)
        with (
            made_by.generator(GENERATOR, WORKERS) as generator,
            made_by.measurer("qemu", "warm", ALL_DEVICES) as measurer,
        ):
            yield Evaluator(generator, measurer)

    @pytest.fixture
    def candidates(self) -> list[Candidate]:
        """The default and the textbook config of a small problem."""
        kernel = find_kernel("add_u8")
        params = {"width": 256, "height": 8}
        problem = kernel.problem(params, Contract.STATIC, find_target("hexagon-v66"))
        starts = find_generator(GENERATOR).starts(kernel, problem)
        return [Candidate(problem, starts[name], GENERATOR) for name in ("default", "textbook")]

    def test_it_is_registered(self) -> None:
        assert self.name in executor_names()

    @pytest.mark.slow
    def test_each_candidate_gives_its_trial(
        self, evaluator: Evaluator, candidates: list[Candidate]
    ) -> None:
        with find_executor(self.name)(evaluator, WORKERS) as executor:
            futures = [
                executor.submit(one, number=number, origin=f"test {number}", budget_cycles=None)
                for number, one in enumerate(candidates)
            ]
            found = [future.result() for future in futures]
        for number, (candidate, evaluation) in enumerate(zip(candidates, found, strict=True)):
            trial = evaluation.trial
            assert (trial.number, trial.origin) == (number, f"test {number}")
            assert trial.config == candidate.config
            assert trial.outcome is Outcome.OK
            assert trial.measurement is not None
            assert trial.measurement.verified
            assert evaluation.artifact is not None
            assert trial.artifact_digest == evaluation.artifact.digest

    @pytest.mark.slow
    def test_one_object_is_measured_once(
        self, evaluator: Evaluator, candidates: list[Candidate]
    ) -> None:
        with find_executor(self.name)(evaluator, WORKERS) as executor:
            futures = [
                executor.submit(candidates[0], number=number, origin="test", budget_cycles=None)
                for number in range(3)
            ]
            trials = [future.result().trial for future in futures]
        [measured] = [trial for trial in trials if trial.duplicate_of is None]
        copies = [trial for trial in trials if trial.duplicate_of is not None]
        assert {trial.duplicate_of for trial in copies} == {measured.number}
        assert {trial.measurement for trial in trials} == {measured.measurement}

    @pytest.mark.slow
    def test_an_outcome_is_not_an_exception(
        self, evaluator: Evaluator, candidates: list[Candidate]
    ) -> None:
        with find_executor(self.name)(evaluator, WORKERS) as executor:
            cut = executor.submit(candidates[0], number=0, origin="test", budget_cycles=1)
            assert cut.result().trial.outcome is Outcome.CUTOFF

    @pytest.mark.slow
    def test_it_ends_after_what_is_in_flight(
        self, evaluator: Evaluator, candidates: list[Candidate]
    ) -> None:
        with find_executor(self.name)(evaluator, WORKERS) as executor:
            futures = [
                executor.submit(one, number=number, origin="test", budget_cycles=None)
                for number, one in enumerate(candidates)
            ]
        assert all(future.done() for future in futures)

    def test_it_ends_without_having_run_anything(self, evaluator: Evaluator) -> None:
        with find_executor(self.name)(evaluator, WORKERS):
            pass
