"""What the alignment contract says, told to Halide.

Static shapes and stride or extent promises are what make HVX code fast; an aligned host pointer
alone changes almost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import halide as hl

from tuner.kernels.kernel import HalidePipeline
from tuner.problem.buffers import BufferSpec, layout_of, promised_strides
from tuner.problem.contract import Contract
from tuner.problem.target import Target


def promise_all(
    pipeline: HalidePipeline, buffers: Sequence[BufferSpec], contract: Contract, target: Target
) -> list[hl.ImageParam | hl.OutputImageParam]:
    """Promises what ``contract`` says of all ``buffers``; returns the parameters of ``pipeline``
    that they belong to."""
    parameters = list(pipeline.inputs)
    shaped = [True] * len(parameters)
    for func in pipeline.outputs:
        own = func.output_buffers()
        parameters += own
        # Halide promises those of a tuple the region of its first one by itself.
        shaped += [number == 0 for number in range(len(own))]
    for parameter, spec, has_shape in zip(parameters, buffers, shaped, strict=True):
        promise(parameter, spec, contract, target, has_shape=has_shape)
    return parameters


def promise(
    parameter: hl.ImageParam | hl.OutputImageParam,
    spec: BufferSpec,
    contract: Contract,
    target: Target,
    *,
    has_shape: bool = True,
) -> None:
    """Constrains ``parameter`` (dimension 0 innermost) to what ``contract`` says of ``spec``.

    The compiled function checks the promises when it is called and returns an error code if the
    caller breaks one. Without ``has_shape`` nothing is promised of where it begins and ends.
    """
    # Coordinates count from the first element unless the kernel says otherwise.
    mins = spec.mins[::-1] or (0,) * len(spec.shape)
    for dimension, least in enumerate(mins if has_shape else ()):
        parameter.dim(dimension).set_min(least)
    if contract is Contract.NONE:
        return
    alignment = target.vector_alignment_bytes
    lanes = alignment // spec.element_bytes
    if not spec.loose:
        parameter.set_host_alignment(alignment)
    if contract is Contract.STATIC:
        strides = layout_of(spec, contract, target).strides
        known = promised_strides(spec, contract)
        for dimension, (least, extent, stride) in enumerate(
            zip(mins, reversed(spec.shape), reversed(strides), strict=True)
        ):
            if has_shape:
                parameter.dim(dimension).set_bounds(least, extent)
            if dimension < known:
                parameter.dim(dimension).set_stride(stride)
        return
    if not spec.promised:
        return
    if contract in (Contract.STRIDE, Contract.EXTENT) and not spec.loose:
        for dimension in range(1, len(spec.shape)):
            outer: Any = parameter.dim(dimension)
            outer.set_stride((outer.stride() // lanes) * lanes)
    if contract is Contract.EXTENT and has_shape:
        inner: Any = parameter.dim(0)
        inner.set_bounds(0, (inner.extent() // lanes) * lanes)
