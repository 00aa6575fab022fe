"""Product of two quantized matrices, neither of them constant, requantized: attention's products.

With zero points, ``sum (a - zero_a) (b - zero_b)`` is the sum of products less ``zero_b`` times the
sum of the row of A and ``zero_a`` times the sum of the column of B, plus ``k * zero_a * zero_b``.
Columns are summed by ``vrmpy``, each byte times ``zero_a``: of sums of widened bytes, and of their
products by a scalar, Halide 21 made wrong code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tuner.kernels import byte_sums, channel_scale
from tuner.kernels.conv2d_u8 import repeated
from tuner.kernels.gemm_u8 import QUAD, GemmU8
from tuner.kernels.kernel import (
    Array,
    HalidePipeline,
    Problem,
    WorkCounts,
)
from tuner.space import Config, Directive, Space
from tuner.space.directives import Steps, TailStrategy, tail

if TYPE_CHECKING:
    import halide as hl

_ZERO_A, _ZERO_B, _NUMBERS = 0, channel_scale.NUMBERS, channel_scale.NUMBERS + 1
_ROUND_UP = TailStrategy.ROUND_UP


class QGemmU8(GemmU8):
    """C[m, n] = requantized sum over k of (A[m, k] - zero_a) (B[k, n] - zero_b), and the bias of
    the column, exact in i32 (modulo 2**32).

    ``channel_scale.py`` says how sums become u8; the last of ``numbers`` is ``zero_b``. As with
    ``gemm_u8``, schedules made for a ``k`` that is a multiple of 4 take no other.
    """

    name = "qgemm_u8"
    summary = "product of two quantized matrices, u8 x u8 -> u8, all numbers as data"
    text = f"""
def qgemm_u8(m: size, n: size, k: size, A: u8[m, k], B: u8[k, n], bias: i32[n], multiplier: i32[n],
        numbers: u8[5]):
    for y, x in ...:
        sums[y, x] = bias[x]
    for y, x, i in ..., ..., range(k):
        sums[y, x] += (i32(A[y, i]) - i32(numbers[0])) * (i32(B[i, x]) - i32(numbers[4]))
    for y, x in range(m), range(n):
        C[y, x] = {channel_scale.text("sums[y, x]", "x")}
    return C
"""
    unpromised = channel_scale.BUFFERS

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Random; scales for outputs that seldom saturate."""
        a, b, *_ = self.buffers(params)
        reach = 1 << 15 + params["k"].bit_length() // 2
        bias, multiplier, numbers = channel_scale.inputs(params["n"], reach, rng)
        numbers[_ZERO_A] = rng.integers(96, 160)
        numbers = np.append(numbers, rng.integers(96, 160)).astype(np.uint8)
        matrices = [rng.integers(0, 256, spec.shape, np.uint8) for spec in (a, b)]
        return [*matrices, bias, multiplier, numbers]

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Requantization narrows at least: to 16 bits, and to a byte.
        outputs = params["m"] * params["n"]
        return self.counts(params, macs=outputs * params["k"], lane_ops=3 * outputs)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        bias = hl.ImageParam(hl.Int(32), 1, "bias")
        multiplier, numbers = channel_scale.settings(_NUMBERS)
        sums_only = super().pipeline(params)
        a, b = sums_only.inputs
        depth = a.dim(0).extent()
        zero_a, zero_b = hl.u32(numbers[_ZERO_A]), hl.u32(numbers[_ZERO_B])

        stages = {name: f for name, f in sums_only.stages.items() if name != "C"}
        lane, quad = hl.Var("lane"), hl.Var("quad")
        within = hl.BoundaryConditions.constant_exterior(
            repeated(b), hl.u8(0), [(hl.Expr(), hl.Expr()), (0, depth)]
        )
        quads, zeros, columns = (hl.Func(name) for name in ("quads_b", "zeros", "column_sums"))
        zeros[lane] = numbers[_ZERO_A]
        quads[lane, x, quad] = within[x, QUAD * quad + lane]
        k = hl.RDom([(0, QUAD), (0, (depth + QUAD - 1) // QUAD)], "k")
        columns[x] = hl.u32(0)
        columns[x] += hl.u32(quads[k.x, x, k.y]) * hl.u32(zeros[k.x])
        constant = hl.u32(depth) * zero_a * zero_b
        total = stages["sums"][x, y] - columns[x] + hl.reinterpret(hl.UInt(32), repeated(bias)[x])
        total += constant - zero_b * stages["row_sums"][y]
        scaled, c = hl.Func("scaled"), hl.Func("C")
        scaled[x, y] = channel_scale.expression(
            hl.reinterpret(hl.Int(32), total), repeated(multiplier)[x], numbers
        )
        c[x, y] = scaled[x, y]
        stages |= {"quads_b": quads, "zeros": zeros, "column_sums": columns, "scaled": scaled}
        return HalidePipeline((a, b, bias, multiplier, numbers), c, {**stages, "C": c})

    def start(self, a: hl.ImageParam, row: hl.Var) -> tuple[hl.Expr, dict[str, hl.Func]]:
        """The sums of rows of A besides: :meth:`pipeline` takes them away."""
        import halide as hl

        k, rows = a.dim(0).extent(), a.dim(1).extent()
        every = (hl.Expr(), hl.Expr())
        within = hl.BoundaryConditions.constant_exterior(a, hl.u8(0), [(0, k), every])

        def byte(column: hl.Expr) -> hl.Expr:
            return within[column, hl.clamp(row, 0, rows - 1)]

        return hl.u32(0), byte_sums.stages("row_sums", byte, k, (row,), hl.UInt(32))

    def space(self, problem: Problem) -> Space:
        """That of ``gemm_u8`` with tiles of whole vectors of bytes: its sums become such."""
        inherited, lanes = super().space(problem), problem.target.lanes(1)
        knobs = tuple(
            replace(knob, choices=(lanes, 2 * lanes)) if knob.name == "tile_n" else knob
            for knob in inherited.knobs
        )
        return Space(self.name, knobs, inherited.constraints, inherited.constants)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        lanes, words = problem.target.lanes(1), problem.target.lanes(4)
        inherited = [
            replace(one, args=tuple(lanes if arg == words else arg for arg in one.args))
            if (one.func, one.op, one.args[:1]) == ("C", "split", ("xi",))
            else one
            for one in super().schedule(problem, config)
        ]
        steps = Steps()
        byte_sums.schedule(steps, problem, "row_sums", "y")
        quads = steps.stage("quads_b").compute_root().reorder_storage("lane", "x", "quad")
        quads.reorder("lane", "x", "quad").vectorize("x", lanes, _ROUND_UP).unroll("lane")
        steps.stage("zeros").compute_root()
        steps.stage("column_sums").compute_root().vectorize("x", words, _ROUND_UP)
        columns = steps.stage("column_sums", 0).split("x", "x", "xi", words, _ROUND_UP)
        columns.reorder("k$x", "xi", "k$y", "x").vectorize("xi").atomic().vectorize("k$x")
        if tail(config, "tail_n") is TailStrategy.GUARD_WITH_IF:
            # Guarding every operation would take them one by one: only the copy is guarded.
            inner = "yo" if config.text("order") == "rows_inner" else "xo"
            scaled = steps.stage("scaled").compute_at("C", inner)
            scaled.vectorize("x", lanes, _ROUND_UP).unroll("x").unroll("y")
        return [*inherited, *steps.directives]
