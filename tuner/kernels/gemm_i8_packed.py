"""Matrix product of i8 operands of which the second was packed ahead of time, sign bits flipped."""

from __future__ import annotations

from tuner.kernels.gemm_i8 import GemmI8
from tuner.kernels.gemm_u8 import product
from tuner.kernels.gemm_u8_packed import QUADS, QUADS_AT, GemmU8Packed


class GemmI8Packed(GemmU8Packed, GemmI8):
    """C[m, n] = sum over k of A[m, k] B[k, n], in i32 (modulo 2**32), where B comes as
    :func:`tuner.kernels.gemm_u8_packed.pack_quads` returns it: unsigned, 128 more than it was.

    Of the last quad of rows, those from ``k`` on must be zero. As with ``gemm_u8``, schedules made
    for a ``k`` that is a multiple of 4 take no other.
    """

    name = "gemm_i8_packed"
    summary = "matrix product, i8 x i8 -> i32, B packed ahead of time"
    text = product("i8", "i32", QUADS, f"(i32({QUADS_AT}) - 128)")
