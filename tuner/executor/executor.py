"""The contract of executors, and the one that every installation has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor

from tuner.executor.evaluation import Evaluation, Evaluator
from tuner.records.candidate import Candidate


class Executor(ABC):
    """Runs the candidates of one job: the search loop's only way to have one evaluated.

    Called from the loop's thread alone, which has at most ``workers`` candidates in flight. It owns
    whatever it starts (threads, workers elsewhere) and ends it with its context, after the
    candidates in flight; generator, measurer and store are the caller's.
    """

    @abstractmethod
    def __init__(self, evaluator: Evaluator, workers: int) -> None:
        """Starts nothing that is not ended by :meth:`close`.

        An executor that evaluates elsewhere makes evaluators there, with the generator and the
        measurer of ``evaluator`` by name, and keeps to one measurement per object all the same.
        """

    @abstractmethod
    def submit(
        self, candidate: Candidate, *, number: int, origin: str, budget_cycles: int | None
    ) -> Future[Evaluation]:
        """Starts :meth:`Evaluator.evaluate` with these arguments and returns at once.

        The future has an evaluation whatever the outcome of the candidate, and raises
        ``ToolchainError`` and faults of hvxtune itself.
        """

    @abstractmethod
    def close(self) -> None:
        """Waits for the candidates in flight and ends whatever was started."""

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class ThreadExecutor(Executor):
    """Runs candidates in ``workers`` threads of this process."""

    def __init__(self, evaluator: Evaluator, workers: int) -> None:
        self._evaluator = evaluator
        self._pool = ThreadPoolExecutor(workers, "hvxtune-trial")

    def submit(
        self, candidate: Candidate, *, number: int, origin: str, budget_cycles: int | None
    ) -> Future[Evaluation]:
        return self._pool.submit(
            self._evaluator.evaluate,
            candidate,
            number=number,
            origin=origin,
            budget_cycles=budget_cycles,
        )

    def close(self) -> None:
        self._pool.shutdown(wait=True)
