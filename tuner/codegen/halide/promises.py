"""What the alignment contract says, told to Halide.

Static shapes and stride or extent promises are what make HVX code fast; an aligned host pointer
alone changes almost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import halide as hl

from tuner.buffers import BufferSpec, layout_of
from tuner.contract import Contract
from tuner.target import Target

if TYPE_CHECKING:
    from tuner.codegen.halide.uploads.deserialized import SerializedInput


def promise(
    parameter: hl.ImageParam | hl.OutputImageParam | SerializedInput,
    spec: BufferSpec,
    contract: Contract,
    target: Target,
) -> None:
    """Constrains ``parameter`` (dimension 0 innermost) to what ``contract`` says of ``spec``.

    The compiled function checks the promises when it is called and returns an error code if the
    caller breaks one.
    """
    # Coordinates count from the first element unless the kernel says otherwise.
    mins = spec.mins[::-1] or (0,) * len(spec.shape)
    for dimension, least in enumerate(mins):
        parameter.dim(dimension).set_min(least)
    if contract is Contract.NONE:
        return
    alignment = target.vector_alignment_bytes
    lanes = alignment // spec.element_bytes
    parameter.set_host_alignment(alignment)
    if contract is Contract.STATIC:
        strides = layout_of(spec, contract, target).strides
        for dimension, (least, extent, stride) in enumerate(
            zip(mins, reversed(spec.shape), reversed(strides), strict=True)
        ):
            parameter.dim(dimension).set_bounds(least, extent).set_stride(stride)
        return
    if not spec.promised:
        return
    if contract in (Contract.STRIDE, Contract.EXTENT):
        for dimension in range(1, len(spec.shape)):
            outer: Any = parameter.dim(dimension)
            outer.set_stride((outer.stride() // lanes) * lanes)
    if contract is Contract.EXTENT:
        inner: Any = parameter.dim(0)
        inner.set_bounds(0, (inner.extent() // lanes) * lanes)
