"""A table of 256 bytes applied to u8 images: tone curves, activations of quantized networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tuner.kernels.kernel import HalidePipeline, WorkCounts
from tuner.kernels.pointwise import Pointwise

_ENTRIES = 256
_TABLE_READ = 32
"""Entries of the table that one ``vlut32`` looks at (V66 HVX manual)."""


class LutU8(Pointwise):
    """output = table[input]."""

    name = "lut_u8"
    summary = "look-up of u8 elements in a table of 256 bytes"
    text = """
def lut_u8(height: size, width: size, input: u8[height, width], table: u8[256]):
    for y, x in range(height), range(width):
        output[y, x] = table[i32(input[y, x])]
    return output
"""
    unpromised = ("table",)
    whole_vectors: ClassVar[bool] = True

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Each vlut32 keeps what the others found: eight of them touch every element.
        found = _ENTRIES // _TABLE_READ * params["width"] * params["height"]
        return self.counts(params, lane_ops=found, permuted_bytes=found)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        elements = hl.ImageParam(hl.UInt(8), 2, "input")
        table = hl.ImageParam(hl.UInt(8), 1, "table")
        table.dim(0).set_bounds(0, _ENTRIES)
        output = hl.Func("output")
        output[x, y] = table[hl.i32(elements[x, y])]
        return HalidePipeline((elements, table), output, {"output": output})
