"""The executor: threads that wait for workers of a Dask cluster.

Everything that decides (which objects are measured once, how often a device may fail) stays with
the job, in :class:`~tuner.executor.evaluation.Evaluator`; compiling and measuring go elsewhere.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from tuner.codegen import CodeGenerator, find_generator
from tuner.errors import OutOfTimeError, UserError
from tuner.executor.cluster.connection import Cluster, cluster, find_place
from tuner.executor.cluster.offers import compile_resource, fingerprint_digest, tag_resources
from tuner.executor.cluster.tasks import (
    Answer,
    KernelContent,
    ask_here,
    compile_here,
    content_for,
    measure_here,
)
from tuner.executor.executor import EXECUTOR_VARIABLE, ThreadExecutor
from tuner.measure.measurer import DeviceAccess, Measurer, Timed
from tuner.problem.target import Target
from tuner.records.candidate import Artifact, CacheState, Candidate, Problem

if TYPE_CHECKING:
    from distributed import Future

    from tuner.machine.fitness import Examined
    from tuner.measure.explanation import Explanation

AHEAD = 2.0
"""Candidates in flight for each slot of the cluster: while one runs, the next waits beside it,
so that no slot is idle while an answer travels and the next candidate is chosen."""


class DaskExecutor(ThreadExecutor):
    """Candidates are compiled and measured by the workers of ``HVXTUNE_EXECUTOR``."""

    @classmethod
    def check(cls, address: str) -> None:
        find_place(address)

    @classmethod
    def generator(cls, name: str, workers: int) -> CodeGenerator:
        return RemoteGenerator(find_generator(name)(1), this_cluster())

    @classmethod
    def measurer(cls, name: str, cache: CacheState, access: DeviceAccess) -> Measurer:
        return RemoteMeasurer(name, cache, access.on, this_cluster())

    @classmethod
    def examine(cls) -> Examined:
        return this_cluster().examine()


def this_cluster() -> Cluster:
    """The one that ``HVXTUNE_EXECUTOR`` names."""
    return cluster(os.environ.get(EXECUTOR_VARIABLE, ""))


class _Calls:
    """Calls under way, which can be given up together."""

    def __init__(self, where: Cluster) -> None:
        self._where = where
        self._given_up = threading.Event()

    def run(self, call: Callable[..., Answer[Any]], *arguments: Any, needs: list[str]) -> Any:
        """The call's result, and the future that holds its answer among the workers."""
        if self._given_up.is_set():
            raise OutOfTimeError("given up before it was begun")
        future = self._where.begin(call, *arguments, needs=needs)
        return self._where.wait(future, needs, self._given_up).result(), future

    def give_up(self) -> None:
        self._given_up.set()


class RemoteGenerator(CodeGenerator):
    """``inner`` knows kernels and spaces; workers with the same toolchain compile."""

    name: ClassVar[str] = "remote"

    def __init__(self, inner: CodeGenerator, where: Cluster) -> None:
        self._inner = inner
        self._calls = _Calls(where)
        self._limit_s = math.inf
        self.name = inner.name  # type: ignore[misc]
        self.alternatives = inner.alternatives  # type: ignore[misc]
        self.default_is_naive = inner.default_is_naive  # type: ignore[misc]
        self.takes_directives = inner.takes_directives  # type: ignore[misc]
        self.space = inner.space  # type: ignore[method-assign]
        self.starts = inner.starts  # type: ignore[method-assign]

    def fingerprint(self) -> Mapping[str, str]:
        return self._inner.fingerprint()

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        digest = fingerprint_digest(self._inner.fingerprint())
        needs = [compile_resource(self._inner.name, digest)]
        content = _content_for(candidate.problem)
        made, future = self._calls.run(
            compile_here, candidate, with_assembly, self._limit_s, content, needs=needs
        )
        assert isinstance(made, Artifact)  # noqa: S101
        _MADE.keep(made.digest, future)
        return made

    def limit(self, processor_s: float) -> None:
        self._limit_s = processor_s

    def abandon(self) -> None:
        self._calls.give_up()

    def close(self) -> None:
        self._inner.close()


class RemoteMeasurer(Measurer):
    """Measures on workers that have the measurer called ``name``, all with one toolchain."""

    name: ClassVar[str] = "remote"

    def __init__(self, name: str, cache: CacheState, on: str, where: Cluster) -> None:
        self.name = name  # type: ignore[misc]
        self._cache: CacheState = cache
        self._on = on
        self._where = where
        self._offer = where.measurer(name, cache, on)
        self._calls = _Calls(where)
        self.fidelity = self._offer.fidelity  # type: ignore[assignment]
        self.counted = frozenset(self._offer.counted)

    def fingerprint(self) -> Mapping[str, str]:
        return self._offer.fingerprint

    def require(self, target: Target) -> None:
        if target.name not in self._offer.targets:
            raise UserError(
                f"no worker of {self._where.name} runs code for {target.name} with {self.name}",
                accepted=", ".join(self._offer.targets) or "none yet",
                next_step="`hvxtune doctor` on a worker's machine says what is missing",
            )

    def useful_workers(self) -> int | None:
        resources = [self._offer.resource(target) for target in self._offer.targets]
        slots = max((self._where.slots(one) for one in resources), default=0)
        return math.ceil(slots * AHEAD) or None

    def measure(
        self, problem: Problem, artifact: Artifact, *, budget_cycles: int | None = None
    ) -> Timed:
        timed, _ = self._calls.run(
            measure_here,
            problem,
            _MADE.find(artifact.digest) or artifact,
            self.name,
            self._cache,
            self._on,
            budget_cycles,
            _content_for(problem),
            needs=self._needs(problem),
        )
        assert isinstance(timed, Timed)  # noqa: S101
        return timed

    def confirm(self, problem: Problem, artifact: Artifact) -> None:
        self._asked("confirm", problem, artifact)

    def explain(self, problem: Problem, artifact: Artifact) -> Explanation:
        told: Explanation = self._asked("explain", problem, artifact)
        return told

    def _asked(self, question: str, problem: Problem, artifact: Artifact) -> Any:
        told, _ = self._calls.run(
            ask_here,
            question,
            problem,
            artifact,
            self.name,
            self._cache,
            self._on,
            _content_for(problem),
            needs=self._needs(problem),
        )
        return told

    def _needs(self, problem: Problem) -> list[str]:
        return [self._offer.resource(problem.target.name), *tag_resources(self._on)]

    def close(self) -> None:
        self._calls.give_up()


class _Made:
    """Where the objects lie that workers made: their answers, until they have been measured.

    A measurement names the answer and not the bytes: Dask runs it where they are, or brings them to
    a worker once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: dict[str, Future[Any]] = {}

    def keep(self, digest: str, future: Future[Any]) -> None:
        with self._lock:
            self._futures[digest] = future
            while len(self._futures) > 256:
                del self._futures[next(iter(self._futures))]

    def find(self, digest: str) -> Future[Any] | None:
        with self._lock:
            found = self._futures.pop(digest, None)
        return found if found is not None and found.status == "finished" else None


_MADE = _Made()


@lru_cache(maxsize=16)
def _content_for(problem: Problem) -> KernelContent | None:
    return content_for(problem)
