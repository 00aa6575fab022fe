"""The contract of executors, and the one that every installation has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Final

from tuner.codegen import CodeGenerator, find_generator
from tuner.codegen.halide.servers import begin_spare
from tuner.executor.evaluation import Evaluation, Evaluator
from tuner.machine.fitness import Examined, examine_tools
from tuner.measure import DeviceAccess, Measurer, open_measurer
from tuner.records.candidate import CacheState, Candidate

EXECUTOR_VARIABLE: Final = "HVXTUNE_EXECUTOR"


class Executor(ABC):
    """Runs the candidates of one job: the search loop's only way to have one evaluated.

    Called from the loop's thread alone, which has at most ``workers`` candidates in flight. It owns
    whatever it starts (threads, workers elsewhere) and ends it with its context, after the
    candidates in flight; generator, measurer and store are the caller's.
    """

    @classmethod
    def check(cls, address: str) -> None:
        """``UserError`` if ``address``, by which a user names it, cannot be one. Connects to
        nothing."""
        return

    @classmethod
    def generator(cls, name: str, workers: int) -> CodeGenerator:
        """The code generator called ``name`` for a job, with at most ``workers`` compilations at a
        time, for the caller to close. An executor whose candidates are compiled elsewhere gives one
        that compiles there, and is otherwise the same."""
        return find_generator(name)(workers)

    @classmethod
    def measurer(cls, name: str, cache: CacheState, access: DeviceAccess) -> Measurer:
        """Likewise the measurer; raises what :func:`tuner.measure.open_measurer` raises."""
        return open_measurer(name, cache, access)

    @classmethod
    def examine(cls) -> Examined:
        """The jobs that can be run now, and what is lacking."""
        return examine_tools()

    @classmethod
    def expect(cls) -> None:
        """Begins what takes long to start here, as a job of this process is about to come."""
        return

    @abstractmethod
    def __init__(self, evaluator: Evaluator, workers: int) -> None:
        """Starts nothing that is not ended by :meth:`close`. The tools of ``evaluator`` are those
        of :meth:`generator` and :meth:`measurer`."""

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

    @classmethod
    def expect(cls) -> None:
        begin_spare()

    def __init__(self, evaluator: Evaluator, workers: int) -> None:
        self._evaluator = evaluator
        self._pool = ThreadPoolExecutor(workers, "hvxtune-trial")

    def submit(
        self, candidate: Candidate, *, number: int, origin: str, budget_cycles: int | None
    ) -> Future[Evaluation]:
        return self._pool.submit(
            copy_context().run,  # the ids of the job
            self._evaluator.evaluate,
            candidate,
            number=number,
            origin=origin,
            budget_cycles=budget_cycles,
        )

    def close(self) -> None:
        self._pool.shutdown(wait=True)
