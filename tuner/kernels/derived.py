"""Kernels whose pipeline in Halide, space and schedules are derived from their program.

An author who leaves out :meth:`Kernel.space` and :meth:`Kernel.schedule` inherits
:class:`DerivedKernel`. Its pipeline is analysed and scheduled as an upload is, by a room above
this one (:class:`Derivation`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner.kernels.kernel import Array, HalidePipeline, Kernel, WorkCounts
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.problem.workload import Problem, Workload
from tuner.program import Program
from tuner.program.bounds import bounded
from tuner.program.demands import demands_of
from tuner.registry import Registry
from tuner.space import Config, Directive, Space


class Derivation(ABC):
    """Pipelines of programs, as kernels. Safe for several threads."""

    @abstractmethod
    def pipeline(self, program: Program, sizes: Mapping[str, int]) -> HalidePipeline:
        """That of ``program``, for ``sizes`` and all others. Imports Halide."""

    @abstractmethod
    def derived(
        self, kernel: Kernel, params: Mapping[str, int], lanes: int = 0
    ) -> tuple[Kernel, dict[str, int]]:
        """The pipeline of ``kernel``, as a kernel of its own, for vectors of ``lanes`` bytes, and
        the parameters of that. Takes a second for the first problem, and milliseconds for each
        further shape."""

    @abstractmethod
    def attached(self, name: str, attachment: Mapping[str, Any]) -> Kernel:
        """The same in a process that can open no file (:meth:`Kernel.attached`)."""


GROUP = "hvxtune.derivations"
_DERIVATIONS: Registry[Derivation] = Registry("derivation", GROUP, {}, Derivation)


def derivation() -> Derivation:
    """The one that there is."""
    found: Derivation = _DERIVATIONS.families()[0]
    return found


class DerivedKernel(Kernel):
    """A kernel that is its parameters and :attr:`text`, without a schedule of its own.

    docs/pipelines.md says what can be derived. Methods that need the space take a second for the
    first problem.
    """

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        program = self.program(params)
        return derivation().pipeline(program, {name: params[name] for name in program.sizes})

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        """What its program asks for (:mod:`tuner.program.demands`), and every byte once; of one
        that asks for nothing but to move bytes, as of any kernel."""
        program = self.program(params)
        found = demands_of(bounded(program, {name: params[name] for name in program.sizes}))
        if not (found.macs or found.lane_bytes):
            return super().work(params)
        return replace(
            self.counts(params, macs=found.macs, lane_ops=found.lane_bytes),
            macs_16=found.macs_16,
            macs_32=found.macs_32,
            merged_bytes=found.merged_bytes,
            read_bytes=found.read_bytes,
        )

    def space(self, problem: Problem) -> Space:
        derived, same = self._derived(problem)
        return derived.space(same)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        derived, same = self._derived(problem)
        return derived.schedule(same, config)

    def default_config(self, problem: Problem) -> Config:
        """Vectors of the native width, where there are any, and nothing else."""
        space = self.space(problem)
        return space.nearest_config({"lanes": space.knob("lanes").choices[:2][-1]})

    def textbook_config(self, problem: Problem) -> Config:
        derived, same = self._derived(problem)
        return derived.textbook_config(same)

    def llvm_arguments(self, params: Mapping[str, int]) -> tuple[str, ...]:
        derived, sizes = derivation().derived(self, params)
        return derived.llvm_arguments(sizes)

    def attachment(self, problem: Problem) -> dict[str, Any] | None:
        derived, same = self._derived(problem)
        return derived.attachment(same)

    def attached(self, attachment: Mapping[str, Any]) -> Kernel:
        return _Attached(self, derivation().attached(self.name, attachment))

    def problem(
        self, params: Mapping[str, int] | None, contract: Contract, target: Target
    ) -> Problem:
        found = super().problem(params, contract, target)
        stages = self.program(found.workload.params).stages
        if contract is not Contract.STATIC and any(
            stage.updates and len(stage.arrays) > 1 for stage in stages
        ):  # which cannot be derived for, sometimes
            derived, sizes = derivation().derived(self, found.workload.params)
            derived.problem(sizes, contract, target)
        return found

    def _derived(self, problem: Problem) -> tuple[Kernel, Problem]:
        """The pipeline as a kernel, and ``problem`` with its parameters."""
        lanes = problem.target.lanes(1)
        derived, sizes = derivation().derived(self, problem.workload.params, lanes)
        workload = Workload(self.name, self.version, sizes)
        return derived, Problem(workload, problem.contract, problem.target)


class _Attached(Kernel):
    """A :class:`DerivedKernel` in a compile worker, for the one problem that its analysis is of.

    Compiled is the pipeline that was analysed: in another process Halide may call Funcs otherwise.
    """

    def __init__(self, kernel: DerivedKernel, derived: Kernel) -> None:
        self.name, self.params = kernel.name, kernel.params  # type: ignore[misc]
        self._kernel, self._derived = kernel, derived

    @property
    def source(self) -> str:
        return self._kernel.source

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        return self._kernel.buffers(params)

    def scalars(self, params: Mapping[str, int]) -> tuple[ScalarSpec, ...]:
        return self._kernel.scalars(params)

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        return self._kernel.reference(params, inputs)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        made = self._derived.pipeline({})
        inputs = {one.name(): one for one in made.inputs}
        scalars = {one.name(): one for one in made.scalars}
        return replace(
            made,
            inputs=[inputs[spec.name] for spec in self.buffers(params) if spec.role == "input"],
            scalars=[scalars[spec.name] for spec in self.scalars(params)],
        )

    def space(self, problem: Problem) -> Space:
        return self._derived.space(problem)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        return self._derived.schedule(problem, config)

    def llvm_arguments(self, params: Mapping[str, int]) -> tuple[str, ...]:
        return self._derived.llvm_arguments({})

    def program(self, params: Mapping[str, int]) -> Program:
        return self._kernel.program(params)
