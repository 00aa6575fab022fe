"""A table of 256 bytes applied to u8 images: tone curves, activations of quantized networks."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import Param, WorkCounts

_ENTRIES = 256
_TABLE_READ = 32
"""Entries of the table that one ``vlut32`` looks at (V66 HVX manual)."""


class LutU8(DerivedKernel):
    """output = table[input]."""

    name = "lut_u8"
    summary = "look-up of u8 elements in a table of 256 bytes"
    text = """
def lut_u8(height: size, width: size, input: u8[height, width], table: u8[256]):
    for y, x in range(height), range(width):
        output[y, x] = table[i32(input[y, x])]
    return output
"""
    params = (Param("width", 512, "elements of a row"), Param("height", 64, "rows"))
    unpromised = ("table",)

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Each vlut32 keeps what the others found: eight of them touch every element.
        found = _ENTRIES // _TABLE_READ * params["width"] * params["height"]
        return self.counts(params, lane_ops=found, permuted_bytes=found)
