"""Matrix product of i8 operands with i32 sums: the signed sister of ``gemm_u8``.

``vrmpy`` takes signed bytes from two vectors only, so that each quad of A is first spread over one:
half the products a cycle of the unsigned form, whose quads come from a scalar register.
"""

from __future__ import annotations

from typing import ClassVar

from tuner.kernels.gemm_u8 import GemmU8


class GemmI8(GemmU8):
    """C[m, n] = sum over k of A[m, k] B[k, n], in i32 (modulo 2**32).

    ``k`` is a multiple of 4; pad A and B with zeros for others.
    """

    name: ClassVar[str] = "gemm_i8"
    summary: ClassVar[str] = "matrix product, i8 x i8 -> i32"
    operand: ClassVar[str] = "int8"
    total: ClassVar[str] = "int32"
