"""Sum of two u8 images with different scales and zero points, requantized to u8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.kernels.kernel import HalidePipeline, Param, WorkCounts
from tuner.kernels.pointwise import Pointwise

if TYPE_CHECKING:
    import halide as hl


def quantized_sum(a: hl.Expr, b: hl.Expr, params: Mapping[str, int]) -> hl.Expr:
    """One element of the output from one of each operand."""
    import halide as hl

    product_a = hl.widening_mul(a, hl.u8(params["multiplier_a"]))
    product_b = hl.widening_mul(b, hl.u8(params["multiplier_b"]))
    # All zero points in one bias. u16 is enough: the products add up to 65280 at most, and
    # with a shift of 8 at most a sum that saturates at either end saturates the output too.
    bias = params["zero_out"] << params["shift"]
    bias -= params["zero_a"] * params["multiplier_a"]
    bias -= params["zero_b"] * params["multiplier_b"]
    add_bias = hl.saturating_add if bias >= 0 else hl.saturating_sub
    total = add_bias(product_a + product_b, hl.u16(abs(bias)))
    return hl.u8_sat(hl.rounding_shift_right(total, hl.u16(params["shift"])))


class AddU8(Pointwise):
    """Requantized sum of a and b, each with a scale (multiplier * 2**-shift) and a zero point::

        sum = (a - zero_a) * multiplier_a + (b - zero_b) * multiplier_b
        output = saturate_u8(((sum + 2**(shift - 1)) >> shift) + zero_out)

    exact: everything before the final saturation is as if in unlimited precision.
    """

    name = "add_u8"
    summary = "requantized sum of two u8 images with their own scales"
    text = """
def add_u8(height: size, width: size, a: u8[height, width], b: u8[height, width]):
    for y, x in range(height), range(width):
        total = (i32(a[y, x]) - zero_a) * multiplier_a + (i32(b[y, x]) - zero_b) * multiplier_b
        output[y, x] = u8_sat((total + (1 << shift - 1) >> shift) + zero_out)
    return output
"""
    params = (
        *Pointwise.params,
        # 8-bit products of two multipliers up to 128 and their sum fit u16; see pipeline().
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

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        a = hl.ImageParam(hl.UInt(8), 2, "a")
        b = hl.ImageParam(hl.UInt(8), 2, "b")
        output = hl.Func("output")
        output[x, y] = quantized_sum(a[x, y], b[x, y], params)
        return HalidePipeline((a, b), output, {"output": output})
