"""The calls that workers run: one candidate compiled, or one object measured.

An error that is a candidate's or a device's comes back in the answer, never as an exception of the
task, which Dask would take for a fault.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from tuner.codegen import find_generator
from tuner.errors import CandidateError, HvxtuneError, ToolchainError
from tuner.executor.cluster.devices import ROSTER
from tuner.kernels import find_kernel, keep_kernel, kernel_content
from tuner.log_ids import bind, bound
from tuner.measure import DeviceAccess, open_measurer
from tuner.measure.measurer import Measurer, Timed
from tuner.records.candidate import Artifact, CacheState, Candidate, Problem

if TYPE_CHECKING:
    from tuner.codegen import CodeGenerator
    from tuner.measure.explanation import Explanation

T = TypeVar("T")
_log = logging.getLogger("hvxtune.trial")


@dataclass(frozen=True)
class Answer(Generic[T]):
    """The outcome of a call, and the worker it ran on."""

    where: str
    value: T | None = None
    error: HvxtuneError | None = None

    def __post_init__(self) -> None:
        if self.error is not None and not isinstance(self.error, CandidateError):
            self.error.message += f" (on {self.where})"

    def result(self) -> T:
        """The value; raises what failed, a candidate's error as it is, others with the place."""
        if self.error is not None:
            raise self.error
        return cast("T", self.value)  # of a call that answers nothing, None


@dataclass(frozen=True)
class KernelContent:
    """The bytes of a pipeline or package, which a worker keeps when it first needs them."""

    kernel: str
    data: bytes

    def keep(self) -> None:
        """Makes the kernel known here."""
        keep_kernel(self.kernel, self.data)


class _Opened:
    """Generators and measurers of this worker, opened when first needed and kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._generators: dict[str, CodeGenerator] = {}
        self._measurers: dict[tuple[str, str, str], Measurer] = {}

    def generator(self, name: str, workers: int) -> CodeGenerator:
        with self._lock:
            if name not in self._generators:
                opened = self._stack.enter_context(find_generator(name)(workers))
                self._generators[name] = opened
            return self._generators[name]

    def measurer(self, name: str, cache: CacheState, on: str, holder: str) -> Measurer:
        key = (name, cache, on)
        with self._lock:
            if key not in self._measurers:
                opened = open_measurer(name, cache, DeviceAccess(on, ROSTER, holder))
                self._measurers[key] = self._stack.enter_context(opened)
            return self._measurers[key]

    def close(self) -> None:
        with self._lock:
            self._stack.close()
            self._generators.clear()
            self._measurers.clear()


OPENED = _Opened()
"""Of this process."""


def followed(
    brought: Mapping[str, str], call: Callable[..., Answer[T]], *arguments: Any
) -> Answer[T]:
    """``call`` with the ids of who asked for it, in its log."""
    with bound(**brought):
        began = time.perf_counter()
        answer = call(*arguments)
        bind(worker=answer.where)
        why = f": {answer.error.message}" if answer.error else ""
        _log.info("%s took %.3f s%s", call.__name__, time.perf_counter() - began, why)
        return answer


def compile_here(
    candidate: Candidate, with_assembly: bool, limit_s: float, content: KernelContent | None
) -> Answer[Artifact]:
    """Compiles ``candidate`` with at most ``limit_s`` seconds of processor time."""
    where, slots = _this_worker()
    try:
        if content is not None:
            content.keep()
        _require_same_code(candidate.problem)
        generator = OPENED.generator(candidate.generator, slots)
        generator.limit(limit_s)
        return Answer(where, generator.compile(candidate, with_assembly=with_assembly))
    except HvxtuneError as error:
        return Answer(where, error=error)


def measure_here(
    problem: Problem,
    artifact: Artifact | Answer[Artifact],
    measurer: str,
    cache: CacheState,
    on: str,
    budget_cycles: int | None,
    content: KernelContent | None,
) -> Answer[Timed]:
    """Measures ``artifact``, or what a :func:`compile_here` before it gave."""

    def measured(device: Measurer) -> Timed:
        _require_same_code(problem)
        made = artifact.result() if isinstance(artifact, Answer) else artifact
        return device.measure(problem, made, budget_cycles=budget_cycles)

    return _with_device(measurer, cache, on, content, measured)


def ask_here(
    question: Literal["confirm", "explain"],
    problem: Problem,
    artifact: Artifact,
    measurer: str,
    cache: CacheState,
    on: str,
    content: KernelContent | None,
) -> Answer[Explanation | None]:
    """What a measurer answers to ``question``, one of its methods, about ``artifact``."""

    def asked(device: Measurer) -> Explanation | None:
        answer: Explanation | None = getattr(device, question)(problem, artifact)
        return answer

    return _with_device(measurer, cache, on, content, asked)


def _with_device(
    measurer: str,
    cache: CacheState,
    on: str,
    content: KernelContent | None,
    work: Callable[[Measurer], T],
) -> Answer[T]:
    where, _ = _this_worker()
    try:
        if content is not None:
            content.keep()
        return Answer(where, work(OPENED.measurer(measurer, cache, on, f"worker {where}")))
    except HvxtuneError as error:
        return Answer(where, error=error)


def _require_same_code(problem: Problem) -> None:
    """``ToolchainError`` if the kernel of ``problem`` has other code on this worker."""
    kernel, asked = find_kernel(problem.workload.kernel), problem.workload.source
    if kernel.source != asked:
        raise ToolchainError(
            f"the code of {kernel.name} is {kernel.source[:16]} on this worker, that of the job is "
            f"{asked[:16]}",
            next_step="install one version of hvxtune, and of your own kernels, on all workers",
        )


def content_for(problem: Problem) -> KernelContent | None:
    """What makes the kernel of ``problem`` known to a worker, if it was not installed with it."""
    name = problem.workload.kernel
    data = kernel_content(name)
    return None if data is None else KernelContent(name, data)


def _this_worker() -> tuple[str, int]:
    from distributed import get_worker

    worker = get_worker()
    return str(worker.name), int(worker.state.nthreads)
