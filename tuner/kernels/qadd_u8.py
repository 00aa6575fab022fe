"""Sum of two quantized tensors as a layer of a network: ``add_u8`` with all numbers as data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import Array, Param, WorkCounts

MULTIPLIER_BITS = 16
MOST_SHIFT = 15
"""Bits of a shift that an instruction which narrows takes: Halide 21 does not mind larger ones."""


class QAddU8(DerivedKernel):
    """Requantized sum of a and b, rounded once, halves up::

        output = saturate_u8((a * multiplier_a + b * multiplier_b + start) >> shift)
        output = max(min(output, high), low)

    ``scales`` are ``multiplier_a`` and ``multiplier_b`` (u16), ``start`` and ``shift`` (modulo 16);
    ``limits`` are ``low`` and ``high``. ``start`` is a half of ``2**shift`` and has taken up the
    zero points. The sum is exact in i32 (modulo 2**32).
    """

    name = "qadd_u8"
    summary = "requantized sum of two u8 tensors, all numbers as data"
    text = """
def qadd_u8(height: size, width: size, a: u8[height, width], b: u8[height, width],
            scales: i32[4], limits: u8[2]):
    for y, x in range(height), range(width):
        total = (u32(a[y, x]) * u32(u16(scales[0])) + u32(b[y, x]) * u32(u16(scales[1]))
                 + u32(scales[2]))
        scaled = u8_sat(i16_sat(i32(total) >> (scales[3] & 15)))
        output[y, x] = max(min(scaled, limits[1]), limits[0])
    return output
"""
    params = (Param("width", 512, "elements of a row"), Param("height", 64, "rows"))
    unpromised = ("scales", "limits")

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Random; scales for outputs that seldom saturate."""
        shape, shift = (params["height"], params["width"]), int(rng.integers(10, 16))
        multipliers = rng.integers(1 << (shift - 2), 1 << shift, 2)
        start = int(rng.integers(-128, 128)) << shift
        low, high = sorted(int(end) for end in rng.integers(0, 256, 2))
        return [
            *(rng.integers(0, 256, shape, np.uint8) for _ in "ab"),
            np.array([*multipliers, start, shift], np.int32),
            np.array([low // 2, 255 - (255 - high) // 2], np.uint8),
        ]

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Beside two products per element: adding the start on 16 bits, and narrowing, a byte.
        pixels = params["width"] * params["height"]
        return self.counts(params, macs=2 * pixels, lane_ops=3 * pixels)
