"""From 32-bit sums to u8: the fixed-point scaling of quantized networks, as HVX does it in 16 bits.

With the sum in i32, the output is::

    a = saturate_i16((sum + 2**(pre_shift - 1)) >> pre_shift)
    b = (a * multiplier + 2**14) >> 15
    output = saturate_u8(((b + 2**(shift - 1)) >> shift) + zero_out)

so its scale is multiplier * 2**-(15 + pre_shift + shift); a multiplier of at least 2**14 keeps 15
bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.kernels.kernel import Param

if TYPE_CHECKING:
    import halide as hl

_SCALE_BITS = 15
"""``multiplier`` counts units of 2**-15."""


def text(total: str) -> str:
    """u8 of ``total``, an i32, in the text of a program."""
    a = f"i32(i16_sat(i64({total}) + i64(1 << pre_shift - 1) >> pre_shift))"
    b = f"({a} * multiplier + (1 << 14) >> 15)"
    return f"u8_sat(({b} + (1 << shift - 1) >> shift) + zero_out)"


def params(pre_shift: int, shift: int) -> tuple[Param, ...]:
    """The parameters, with defaults for the shifts."""
    return (
        Param("pre_shift", pre_shift, "right shift of the sum", 1, 15, is_extent=False),
        Param("multiplier", 20000, "scale, in 2**-15", 1, 32767, is_extent=False),
        Param("shift", shift, "right shift after scaling", 1, 7, is_extent=False),
        Param("zero_out", 128, "zero point of the output", 0, 255, is_extent=False),
    )


def expression(total: hl.Expr, params: Mapping[str, int]) -> hl.Expr:
    """u8 of ``total``, an i32."""
    import halide as hl

    a = hl.i16_sat(hl.rounding_shift_right(total, hl.u32(params["pre_shift"])))
    b = hl.rounding_mul_shift_right(a, hl.i16(params["multiplier"]), hl.u16(_SCALE_BITS))
    # Adding the zero point before the shift lets one instruction shift, round and saturate.
    zero = hl.i16(params["zero_out"] << params["shift"])
    return hl.u8_sat(hl.rounding_shift_right(hl.saturating_add(b, zero), hl.u16(params["shift"])))
