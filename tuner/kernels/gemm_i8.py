"""Matrix product of i8 operands with i32 sums: the signed sister of ``gemm_u8``.

``vrmpy`` multiplies signed bytes of a scalar register only with unsigned ones. B is packed with 128
added to every element, which flips the sign bit; the sums of a row begin with the correction, -128
times the sum of the row of A.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tuner.kernels import byte_sums, tiling
from tuner.kernels.gemm_u8 import GemmU8, product
from tuner.problem.workload import Problem
from tuner.space import Config, Directive, Steps

if TYPE_CHECKING:
    import halide as hl


class GemmI8(GemmU8):
    """C[m, n] = sum over k of A[m, k] B[k, n], in i32 (modulo 2**32).

    As with ``gemm_u8``, schedules made for a ``k`` that is a multiple of 4 take no other.
    """

    name = "gemm_i8"
    summary = "matrix product, i8 x i8 -> i32"
    text = product("i8", "i32", "i8[k, n]", "i32(B[i, x])")
    operand: ClassVar[str] = "int8"
    total: ClassVar[str] = "int32"

    def unsigned(self, element: hl.Expr) -> hl.Expr:
        return byte_sums.flipped(element)

    def start(self, a: hl.ImageParam, row: hl.Var) -> tuple[hl.Expr, dict[str, hl.Func]]:
        import halide as hl

        k, rows = a.dim(0).extent(), a.dim(1).extent()
        every = (hl.Expr(), hl.Expr())
        within = hl.BoundaryConditions.constant_exterior(a, hl.i8(0), [(0, k), every])

        def byte(column: hl.Expr) -> hl.Expr:
            return within[column, hl.clamp(row, 0, rows - 1)]

        stages = byte_sums.stages("row_sums", byte, k, (row,), hl.Int(32))
        return -byte_sums.SIGN * stages["row_sums"][row], stages

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        steps = Steps()
        byte_sums.schedule(steps, problem, "row_sums", "y")
        if distance := tiling.prefetch_distance(config):
            rows = tiling.prefetch_rows(distance, problem.workload.params["k"], problem.target)
            steps.stage("row_sums", 0).prefetch("A", "y", rows)
        return [*super().schedule(problem, config), *steps.directives]
