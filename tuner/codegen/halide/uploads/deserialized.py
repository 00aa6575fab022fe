"""Opened pipelines: only for processes that may be lost, see the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import halide as hl

from tuner.codegen.halide.uploads.description import MOST_INPUTS, MOST_STAGES


@dataclass(frozen=True)
class _Dimension:
    """The promises of one dimension, with the names that an ``ImageParam`` has for them."""

    parameter: hl.Parameter
    number: int

    def set_min(self, value: int) -> _Dimension:
        self.parameter.set_min_constraint(self.number, hl.Expr(value))
        return self

    def set_stride(self, value: int) -> _Dimension:
        self.parameter.set_stride_constraint(self.number, hl.Expr(value))
        return self

    def set_bounds(self, least: int, extent: int) -> _Dimension:
        self.set_min(least)
        self.parameter.set_extent_constraint(self.number, hl.Expr(extent))
        return self


@dataclass(frozen=True)
class SerializedInput:
    """An input buffer of an opened pipeline, to be promised things about as an ``ImageParam``."""

    parameter: hl.Parameter

    def dim(self, number: int) -> _Dimension:
        """Dimension ``number``, 0 being the innermost."""
        return _Dimension(self.parameter, number)

    def set_host_alignment(self, alignment_bytes: int) -> None:
        """Promises the alignment of the first element."""
        self.parameter.set_host_alignment(alignment_bytes)

    def argument(self) -> hl.Argument:
        """What a compiled function takes for it."""
        return self.parameter._to_argument()


@dataclass(frozen=True)
class Deserialized:
    """A pipeline out of bytes. ``stages`` are in the order of computation."""

    pipeline: hl.Pipeline
    inputs: Mapping[str, SerializedInput]
    stages: Mapping[str, hl.Func]

    @property
    def outputs(self) -> Sequence[hl.Func]:
        """What it computes."""
        found: Sequence[hl.Func] = self.pipeline.outputs()
        return found


def deserialized(data: bytes) -> Deserialized:
    """Opens ``data``; whatever Halide's reader makes of bad bytes comes out, a crash included."""
    parameters = hl.deserialize_parameters(data)
    pipeline = hl.deserialize_pipeline(data, parameters)
    return Deserialized(
        pipeline,
        {name: SerializedInput(parameter) for name, parameter in parameters.items()},
        {func.name(): func for func in _functions(pipeline)},
    )


def _functions(pipeline: hl.Pipeline) -> list[hl.Func]:
    """All Funcs. Halide tells their number only by refusing the next index."""
    found: list[hl.Func] = []
    while len(found) <= MOST_STAGES + MOST_INPUTS:
        try:
            found.append(pipeline.get_func(len(found)))
        except hl.HalideError:
            break
    return found


def described(data: bytes) -> dict[str, Any]:
    """What there is to see without lowering: the JSON form of ``PipelineDescription``."""
    opened = deserialized(data)
    wrappers = {f"{name}_im" for name in opened.inputs}
    return {
        "stages": [_stage(f) for name, f in opened.stages.items() if name not in wrappers],
        "inputs": [_input(name, entry.parameter) for name, entry in opened.inputs.items()],
        "outputs": [f.name() for f in opened.outputs],
    }


def _stage(func: hl.Func) -> dict[str, Any]:
    return {
        "name": func.name(),
        "dimensions": [arg.name() for arg in func.args()],
        "types": [str(one) for one in func.types()],
        "updates": func.num_update_definitions(),
    }


def _input(name: str, parameter: hl.Parameter) -> dict[str, Any]:
    is_buffer = parameter.is_buffer()
    return {
        "name": name,
        "type": str(parameter.type()),
        "dimensions": parameter.dimensions() if is_buffer else 0,
        "is_buffer": is_buffer,
    }
