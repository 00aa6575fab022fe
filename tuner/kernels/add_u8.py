"""Sum of two u8 images with different scales and zero points, requantized to u8."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import Param, WorkCounts


class AddU8(DerivedKernel):
    """Requantized sum of a and b, each with a scale (multiplier * 2**-shift) and a zero point::

        sum = (a - zero_a) * multiplier_a + (b - zero_b) * multiplier_b
        output = saturate_u8(((sum + 2**(shift - 1)) >> shift) + zero_out)

    exact: everything before the final saturation is as if in unlimited precision.
    """

    name = "add_u8"
    summary = "requantized sum of two u8 images with their own scales"
    # All zero points are in one bias. u16 is enough: the products add up to 65280 at most, and with
    # a shift of 8 at most a sum that saturates at either end saturates the output too.
    text = """
def add_u8(height: size, width: size, a: u8[height, width], b: u8[height, width]):
    for y, x in range(height), range(width):
        bias = (zero_out << shift) - zero_a * multiplier_a - zero_b * multiplier_b
        products = u16(a[y, x]) * multiplier_a + u16(b[y, x]) * multiplier_b
        total = u16_sat(i32(products) + bias)
        output[y, x] = u8_sat(u32(total) + u32(1 << shift - 1) >> shift)
    return output
"""
    params = (
        Param("width", 512, "elements of a row"),
        Param("height", 64, "rows"),
        # 8-bit products of two multipliers up to 128 and their sum fit u16.
        Param("multiplier_a", 120, "scale of a, in 2**-shift", 0, 128, is_extent=False),
        Param("multiplier_b", 90, "scale of b, in 2**-shift", 0, 128, is_extent=False),
        Param("shift", 8, "right shift of the sum", 1, 8, is_extent=False),
        Param("zero_a", 128, "zero point of a", 0, 255, is_extent=False),
        Param("zero_b", 128, "zero point of b", 0, 255, is_extent=False),
        Param("zero_out", 128, "zero point of the output", 0, 255, is_extent=False),
    )

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Beside two products per element: adding the bias on 16 bits, and narrowing, a byte.
        pixels = params["width"] * params["height"]
        return self.counts(params, macs=2 * pixels, lane_ops=3 * pixels)
