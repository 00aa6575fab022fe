"""Matrix product of i8 operands with i32 sums: the signed sister of ``gemm_u8``.

``vrmpy`` multiplies signed bytes of a scalar register only with unsigned ones. B is packed with 128
added to every element, which is a flipped sign bit; the sums of a row begin with what takes that
away again, -128 times the sum of the row of A.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tuner.candidate import Problem
from tuner.kernels.gemm_u8 import QUAD, GemmU8
from tuner.space import Config, Directive
from tuner.space.steps import Steps

if TYPE_CHECKING:
    import halide as hl

_OFFSET = 128
_PARTS = 32
"""Partial sums of a row of A, that vectors of words divide."""


class GemmI8(GemmU8):
    """C[m, n] = sum over k of A[m, k] B[k, n], in i32 (modulo 2**32).

    ``k`` is a multiple of 4; pad A and B with zeros for others.
    """

    name: ClassVar[str] = "gemm_i8"
    summary: ClassVar[str] = "matrix product, i8 x i8 -> i32"
    operand: ClassVar[str] = "int8"
    total: ClassVar[str] = "int32"

    def unsigned(self, element: hl.Expr) -> hl.Expr:
        import halide as hl

        return hl.reinterpret(hl.UInt(8), element) ^ hl.u8(_OFFSET)

    def start(self, a: hl.ImageParam, row: hl.Var) -> tuple[hl.Expr, dict[str, hl.Func]]:
        import halide as hl

        k, rows = a.dim(0).extent(), a.dim(1).extent()
        every = (hl.Expr(), hl.Expr())
        within = hl.BoundaryConditions.constant_exterior(a, hl.i8(0), [(0, k), every])
        # Quads are added up as vrmpy does it, which wants a product: with a one that Halide does
        # not know to be one.
        lane = hl.Var("lane")
        ones = hl.Func("ones")
        ones[lane] = hl.u8(1)
        quads = hl.RDom([(0, QUAD), (0, (k + QUAD * _PARTS - 1) // (QUAD * _PARTS))], "quads")
        parts = hl.Func("parts")
        parts[lane, row] = hl.i32(0)
        element = within[QUAD * (_PARTS * quads.y + lane) + quads.x, hl.clamp(row, 0, rows - 1)]
        parts[lane, row] += hl.i32(element) * hl.i32(ones[quads.x])
        every_part = hl.RDom([(0, _PARTS)], "part")
        row_sums = hl.Func("row_sums")
        row_sums[row] = hl.i32(0)
        row_sums[row] += parts[every_part.x, row]
        return -_OFFSET * row_sums[row], {"ones": ones, "parts": parts, "row_sums": row_sums}

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        words = problem.target.lanes(4)
        steps = Steps()
        steps.stage("ones").compute_root()
        steps.stage("parts").compute_at("row_sums", "y").vectorize("lane", words)
        quads = steps.stage("parts", 0).reorder("quads$x", "lane", "quads$y")
        quads.vectorize("lane", words).atomic().vectorize("quads$x")
        steps.stage("row_sums").compute_root()
        steps.stage("row_sums", 0).atomic().vectorize("part$x", words)
        return [*super().schedule(problem, config), *steps.directives]
