"""What the alignment contract says, told to Halide.

Static shapes and stride or extent promises are what make HVX code fast; an aligned host pointer
alone changes almost nothing.
"""

from __future__ import annotations

import halide as hl

from tuner.buffers import BufferSpec, layout_of
from tuner.contract import Contract
from tuner.target import Target


def promise(
    parameter: hl.ImageParam | hl.OutputImageParam,
    spec: BufferSpec,
    contract: Contract,
    target: Target,
) -> None:
    """Constrains ``parameter`` (dimension 0 innermost) to what ``contract`` says of ``spec``.

    The compiled function checks the promises when it is called and returns an error code if the
    caller breaks one.
    """
    for dimension in range(len(spec.shape)):
        parameter.dim(dimension).set_min(0)  # coordinates count from the first element
    if contract is Contract.NONE:
        return
    alignment = target.vector_alignment_bytes
    lanes = alignment // spec.element_bytes
    parameter.set_host_alignment(alignment)
    if contract is Contract.STATIC:
        strides = layout_of(spec, contract, target).strides
        for dimension, (extent, stride) in enumerate(
            zip(reversed(spec.shape), reversed(strides), strict=True)
        ):
            parameter.dim(dimension).set_bounds(0, extent).set_stride(stride)
        return
    if not spec.promised:
        return
    if contract in (Contract.STRIDE, Contract.EXTENT):
        for dimension in range(1, len(spec.shape)):
            outer = parameter.dim(dimension)
            outer.set_stride((outer.stride() // lanes) * lanes)
    if contract is Contract.EXTENT:
        inner = parameter.dim(0)
        inner.set_bounds(0, (inner.extent() // lanes) * lanes)
