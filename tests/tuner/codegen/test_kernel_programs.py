"""Built-in kernels are programs: what they hand to Halide is read, and its reference and its plain
C give what the kernel's own reference does. That is their stated program's, and so is its C."""

from __future__ import annotations

from pathlib import Path

import halide as hl
import numpy as np
import pytest

from tests.tuner.program.native import Coded
from tuner.codegen.halide.uploads.program import program_of
from tuner.codegen.programs import fitted
from tuner.kernels import Kernel, find_kernel, kernel_names
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.program.bounds import bounded
from tuner.program.interpretation import interpreted

SMALL = {"height": 9, "width": 37, "m": 16, "n": 32, "k": 32}
KERNELS = (
    *("add_u8", "avg_pool_u8", "conv2d_u8", "depthwise_conv2d_u8", "gemm_i8", "gemm_u8"),
    *("lut_u8", "max_pool_u8", "qadd_u8", "qconv2d_u8", "qdepthwise_conv2d_u8", "qgemm_u8"),
    *("rgb_to_gray_u8", "softmax_u8"),
)
"""Not the row stencils, which leave values undefined (``hl.undef``), nor packed products, which
bind their output to expressions."""


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_programs(name: str, tmp_path: Path) -> None:
    kernel: Kernel = find_kernel(name)
    params = {one.name: SMALL.get(one.name, one.default) for one in kernel.params}
    pipeline = hl.Pipeline(list(kernel.pipeline(params).outputs))
    program = program_of(bytes(hl.serialize_pipeline(pipeline)), name)
    inputs, extents = kernel.inputs(params, np.random.default_rng(1)), {}
    buffers = kernel.buffers(params)
    outputs = [one for one in buffers if one.role == "output"]
    for own, spec in zip(program.outputs, outputs, strict=True):
        extents[own] = spec.shape
    given = dict(zip((one.name for one in buffers if one.role == "input"), inputs, strict=True))
    extents |= {own: values.shape for own, values in given.items()}
    sizes = {}
    for size in program.sizes:
        buffer, _, dimension = size.rpartition("_extent_")
        sizes[size] = extents[buffer][-1 - int(dimension)]
    for own, box in bounded(program, sizes).boxes.items():
        if own in given:  # as far as it is read
            given[own] = given[own][tuple(slice(axis.low, axis.high + 1) for axis in box)]
    wanted = kernel.reference(params, inputs)
    for found in (
        interpreted(program, sizes, given, {}),
        Coded(program, sizes).called(given, {}, tmp_path),
    ):
        for values, one in zip(found.values(), wanted, strict=True):
            np.testing.assert_array_equal(values, one)


@pytest.mark.parametrize("name", kernel_names())
def test_kernels_state_their_programs(name: str, tmp_path: Path) -> None:
    """Of which C is written under every contract."""
    kernel = find_kernel(name)
    params = {one.name: SMALL.get(one.name, one.default) for one in kernel.params}
    program, inputs = kernel.program(params), kernel.inputs(params, np.random.default_rng(1))
    given = dict(zip((one.name for one in program.inputs), inputs, strict=True))
    sizes = {one: params[one] for one in program.sizes}
    found = Coded(program, sizes).called(given, {}, tmp_path)
    for values, one in zip(found.values(), kernel.reference(params, inputs), strict=True):
        np.testing.assert_array_equal(values, one)
    for contract in (Contract.STATIC, Contract.NONE):
        assert fitted(kernel, kernel.problem(params, contract, find_target("hexagon-v66")))
