"""Kernels that are programs, as uploads are: what :mod:`tuner.kernels.derived` asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tuner.codegen.halide.pipelines import pipeline_of
from tuner.codegen.halide.uploads import Analysis, analyse_pipeline, written_pipeline
from tuner.errors import UserError
from tuner.kernels import HalidePipeline, Kernel
from tuner.kernels.derived import Derivation
from tuner.problem.buffers import BufferSpec
from tuner.program import Program
from tuner.program.bounds import bounded
from tuner.program.inlining import inlined, is_read_once
from tuner.program.rows import ended
from tuner.program.unrolling import unrolled
from tuner.uploaded.kernel import PipelineKernel, Sizes, attached_pipeline

_KEPT = 64


class Derivations(Derivation):
    """Those of this process."""

    def pipeline(self, program: Program, sizes: Mapping[str, int]) -> HalidePipeline:
        return pipeline_of(bounded(_at_once(program), sizes), is_open=True)

    def derived(
        self, kernel: Kernel, params: Mapping[str, int], lanes: int = 0
    ) -> tuple[Kernel, dict[str, int]]:
        settings = tuple((p.name, params[p.name]) for p in kernel.params if not p.is_extent)
        buffers = kernel.buffers(params)
        is_short = any(spec.role == "output" and spec.shape[-1] < lanes for spec in buffers)
        derived = _pipeline_of(type(kernel), settings, is_short)
        sizes = _sizes_of(derived, buffers)
        scalars = {scalar.name: scalar.value for scalar in kernel.scalars(params)}
        return derived, {**sizes, **scalars}

    def attached(self, name: str, attachment: Mapping[str, Any]) -> Kernel:
        return attached_pipeline(name, attachment)


@lru_cache(maxsize=_KEPT)
def _pipeline_of(kernel: type[Kernel], settings: Sizes, is_short: bool) -> PipelineKernel:
    """The pipeline of ``kernel`` as an upload; extents do not decide it, except that rows which
    fill no vector are computed beyond their ends, and stored in part."""
    params = {**kernel().workload().params, **dict(settings)}
    program = _at_once(kernel().program(params))
    if is_short:
        program = ended(program)
    data = written_pipeline(program, {name: params[name] for name in program.sizes})

    @lru_cache(maxsize=_KEPT)
    def analysed(sizes: Sizes, is_open: bool) -> Analysis:
        return analyse_pipeline(data, dict(sizes), is_open=is_open)

    return PipelineKernel(kernel.name, data, analysed)


def _at_once(program: Program) -> Program:
    """``program`` with small windows written out where they are used: its values are then in
    registers, and what neighbours share is found there."""
    made = unrolled(program)
    changed = {one.name for one in {*made.stages} - {*program.stages}}
    is_passed_on = is_read_once(made)
    return inlined(made, lambda stage: stage.name in changed and is_passed_on(stage))


def _sizes_of(derived: PipelineKernel, buffers: Sequence[BufferSpec]) -> dict[str, int]:
    """The sizes of the derivation: extents of outputs, then of inputs where no output decides
    them."""
    shapes = {spec.name: spec.shape[::-1] for spec in buffers}
    facts = derived.facts({})
    unknown = {buffer.name for buffer in (*facts.inputs, *facts.outputs)} ^ set(shapes)
    if unknown:
        raise UserError(
            f"kernel {derived.name} calls {', '.join(sorted(unknown))} otherwise in its program",
            accepted="inputs and outputs with the names of buffers",
        )
    extents = [extent for buffer in facts.outputs for extent in shapes[buffer.name]]
    extents += [shapes[buffer.name][at] for buffer in facts.inputs for at in buffer.free]
    names = [param.name for param in derived.params if param.is_extent]
    return dict(zip(names, extents, strict=True))
