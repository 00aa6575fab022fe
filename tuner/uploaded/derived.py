"""Kernels whose space and schedules are derived from their program or pipeline.

An author who leaves out :meth:`Kernel.space` and :meth:`Kernel.schedule` inherits
:class:`DerivedKernel`. The pipeline is serialized by a process that has Halide loaded, and from
there on analysed and scheduled as an upload is (:class:`tuner.uploaded.PipelineKernel`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tuner.codegen.halide.pipelines import pipeline_of
from tuner.codegen.halide.uploads import Analysis, analyse_pipeline
from tuner.errors import UserError
from tuner.kernels import HalidePipeline, Kernel
from tuner.kernels.kernel import Array, WorkCounts
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.problem.workload import Problem, Workload
from tuner.program import Program
from tuner.program.bounds import bounded
from tuner.program.expressions import require
from tuner.space import Config, Directive, Space
from tuner.uploaded import PipelineKernel, UploadedPipelines

_KEPT = 64
_LIMIT_S = 60.0
"""To load Halide and the kernel, and to write its pipeline: a second on an idle machine."""


class DerivedKernel(Kernel):
    """A kernel without a schedule of its own.

    It needs nothing but its parameters and :attr:`text`. Without a text it has a :meth:`pipeline`,
    where inputs and outputs are named as in :meth:`buffers`, and a :meth:`reference`;
    docs/pipelines.md says which pipelines can be derived. The default config is the algorithm
    without any schedule. Methods take a second for the first problem, and milliseconds for each
    further shape.
    """

    default_is_naive = True

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        program = self.program(params)
        sizes = {name: params[name] for name in program.sizes}
        return pipeline_of(bounded(program, sizes), is_open=True)

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        derived, sizes = self._derived_at(params)
        found = derived.work(sizes)
        return found if found.products or found.lane_ops else super().work(params)

    def space(self, problem: Problem) -> Space:
        derived, same = self._derived(problem)
        return derived.space(same)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        derived, same = self._derived(problem)
        return derived.schedule(same, config)

    def default_config(self, problem: Problem) -> Config:
        derived, same = self._derived(problem)
        return derived.default_config(same)

    def textbook_config(self, problem: Problem) -> Config:
        derived, same = self._derived(problem)
        return derived.textbook_config(same)

    def llvm_arguments(self, params: Mapping[str, int]) -> tuple[str, ...]:
        derived, sizes = self._derived_at(params)
        return derived.llvm_arguments(sizes)

    def program(self, params: Mapping[str, int]) -> Program:
        if self.text:
            return super().program(params)
        derived, sizes = self._derived_at(params)
        return _in_order(derived.program(sizes), self.buffers(params), self.scalars(params))

    def attachment(self, problem: Problem) -> dict[str, Any]:
        derived, same = self._derived(problem)
        return derived.attachment(same)

    def attached(self, attachment: Mapping[str, Any]) -> Kernel:
        return _Attached(self, UploadedPipelines().attached(self.name, attachment))

    def problem(
        self, params: Mapping[str, int] | None, contract: Contract, target: Target
    ) -> Problem:
        found = super().problem(params, contract, target)
        if contract is not Contract.STATIC:  # which some pipelines cannot be derived for
            derived, sizes = self._derived_at(found.workload.params)
            derived.problem(sizes, contract, target)
        return found

    def _derived(self, problem: Problem) -> tuple[PipelineKernel, Problem]:
        """The pipeline as an upload, and ``problem`` with its parameters."""
        derived, sizes = self._derived_at(problem.workload.params)
        workload = Workload(self.name, self.version, sizes)
        return derived, Problem(workload, problem.contract, problem.target)

    def _derived_at(self, params: Mapping[str, int]) -> tuple[PipelineKernel, dict[str, int]]:
        settings = tuple((p.name, params[p.name]) for p in self.params if not p.is_extent)
        derived = _pipeline_of(type(self), settings)
        sizes = _sizes_of(derived, self.buffers(params))
        scalars = {scalar.name: scalar.value for scalar in self.scalars(params)}
        return derived, {**sizes, **scalars}


class _Attached(Kernel):
    """A :class:`DerivedKernel` in a compile worker, for the one problem that its analysis is of.

    Compiled is the pipeline that was analysed: in another process Halide may call Funcs otherwise.
    """

    def __init__(self, kernel: DerivedKernel, derived: PipelineKernel) -> None:
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
        return _in_order(self._derived.program({}), self.buffers(params), self.scalars(params))


@lru_cache(maxsize=_KEPT)
def _in_order(
    program: Program, buffers: tuple[BufferSpec, ...], scalars: tuple[ScalarSpec, ...]
) -> Program:
    """``program`` with its arguments and outputs in the order of the kernel's."""
    names = [*(one.name for one in buffers), *(one.name for one in scalars)]
    own = {one.name for one in program.arguments}.union(program.outputs)
    require(own == {*names}, f"it calls {', '.join(sorted(own ^ {*names}))} otherwise")
    arguments = tuple(sorted(program.arguments, key=lambda one: names.index(one.name)))
    outputs = tuple(sorted(program.outputs, key=names.index))
    return replace(program, arguments=arguments, outputs=outputs)


@lru_cache(maxsize=_KEPT)
def _pipeline_of(
    kernel: type[DerivedKernel], settings: tuple[tuple[str, int], ...]
) -> PipelineKernel:
    """The pipeline of ``kernel`` as an upload; extents do not decide it."""
    params = {**kernel().workload().params, **dict(settings)}
    data = _serialized(kernel, params)

    @lru_cache(maxsize=_KEPT)
    def analysed(sizes: tuple[tuple[str, int], ...], is_open: bool) -> Analysis:
        return analyse_pipeline(data, dict(sizes), is_open=is_open)

    return PipelineKernel(kernel.name, data, analysed)


def _sizes_of(derived: PipelineKernel, buffers: Sequence[BufferSpec]) -> dict[str, int]:
    """The sizes of the derivation: extents of outputs, then of inputs where no output decides
    them."""
    shapes = {spec.name: spec.shape[::-1] for spec in buffers}
    facts = derived.facts({})
    unknown = {buffer.name for buffer in (*facts.inputs, *facts.outputs)} ^ set(shapes)
    if unknown:
        raise UserError(
            f"kernel {derived.name} calls {', '.join(sorted(unknown))} otherwise in its pipeline",
            accepted="ImageParams and output Funcs with the names of buffers",
        )
    extents = [extent for buffer in facts.outputs for extent in shapes[buffer.name]]
    extents += [shapes[buffer.name][at] for buffer in facts.inputs for at in buffer.free]
    names = [param.name for param in derived.params if param.is_extent]
    return dict(zip(names, extents, strict=True))


def _serialized(kernel: type[DerivedKernel], params: Mapping[str, int]) -> bytes:
    """The pipeline of ``kernel``, written by a process that loads Halide: no other should."""
    with tempfile.TemporaryDirectory(prefix="hvxtune-derived-") as folder:
        place = Path(folder) / "pipeline"
        code = (
            "import sys; from tuner.uploaded.derived import write_pipeline; "
            "write_pipeline(*sys.argv[1:])"
        )
        named = f"{kernel.__module__}:{kernel.__qualname__}"
        command = [sys.executable, "-c", code, named, json.dumps(params), str(place)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            subprocess.run(
                command, env=environment, capture_output=True, timeout=_LIMIT_S, check=True
            )
            return place.read_bytes()
        except subprocess.TimeoutExpired:
            reason = f"it took more than {_LIMIT_S:g} s"
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip()
            reason = said.splitlines()[-1][:300] if said else f"status {error.returncode}"
    raise UserError(
        f"the pipeline of kernel {kernel.name} cannot be made: {reason}",
        next_step="try its method pipeline() in Python",
    )


def write_pipeline(named: str, params: str, place: str) -> None:
    """Serializes the pipeline of the kernel ``module:class`` at ``params`` (JSON) to a file. Run in
    a process of its own."""
    import halide as hl

    module, _, name = named.partition(":")
    pipeline = getattr(import_module(module), name)().pipeline(json.loads(params))
    Path(place).write_bytes(hl.serialize_pipeline(hl.Pipeline(list(pipeline.outputs))))
