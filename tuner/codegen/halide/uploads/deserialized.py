"""Opened pipelines: only for processes that may be lost, see the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import halide as hl

from tuner.codegen.halide.uploads.contents import checked
from tuner.codegen.halide.uploads.rewriting import rewritten


@dataclass(frozen=True)
class Deserialized:
    """A pipeline out of bytes. ``stages`` are in the order of computation, ``inputs`` and
    ``scalars`` in that of their names."""

    pipeline: hl.Pipeline
    inputs: Mapping[str, hl.ImageParam]
    scalars: Mapping[str, hl.Param]
    stages: Mapping[str, hl.Func]

    @property
    def outputs(self) -> Sequence[hl.Func]:
        """The Funcs that it computes."""
        found: Sequence[hl.Func] = self.pipeline.outputs()
        return found

    @property
    def arguments(self) -> list[hl.Argument]:
        """The arguments of a compiled function before its outputs: the inputs, then the scalars."""
        return [hl.Argument(one) for one in (*self.inputs.values(), *self.scalars.values())]


def deserialized(data: bytes, change: Callable[[bytes], bytes] = bytes) -> Deserialized:
    """Opens ``data``, which is checked before Halide sees it (``contents``), as ``change`` makes it
    (``rewriting``).

    Raises what :func:`checked` does. Whatever Halide's reader makes of bad bytes that passed comes
    out, a crash included.

    The parameters are new ones of the same names: those in the bytes cannot be told apart from
    numbers when a promise is made of their strides, nor set, and carry promises of their own.
    """
    funcs = checked(data).funcs
    data = change(rewritten(data))
    found = hl.deserialize_parameters(data)
    inputs = {n: hl.ImageParam(p.type(), p.dimensions(), n) for n, p in found.items() if _is(p)}
    scalars = {n: hl.Param(p.type(), n) for n, p in found.items() if not _is(p)}
    own = {name: param.parameter() for name, param in {**inputs, **scalars}.items()}
    pipeline = hl.deserialize_pipeline(data, own)
    stages = {func.name(): func for func in map(pipeline.get_func, range(len(funcs)))}
    return Deserialized(pipeline, inputs, scalars, stages)


def _is(parameter: hl.Parameter) -> bool:
    return bool(parameter.is_buffer())
