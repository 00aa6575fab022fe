"""Matrix product of u8 operands with u32 sums.

HVX multiplies 8-bit values best with ``vrmpy``: four neighbouring bytes of each 32-bit lane times
four bytes of a scalar register, summed into that lane. A row of A supplies the scalars as it is; B
is packed so that four rows lie interleaved.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tuner.kernels import tiling
from tuner.kernels.kernel import (
    HalidePipeline,
    Kernel,
    Param,
    Problem,
    WorkCounts,
)
from tuner.problem.contract import Contract
from tuner.space import Config, Constraint, Directive, Knob, KnobValue, Space
from tuner.space.directives import Stage, Steps, TailStrategy, tail

if TYPE_CHECKING:
    import halide as hl

QUAD = 4
"""Bytes that one vrmpy lane reduces."""
_ROUND_UP = TailStrategy.ROUND_UP


def product(operand: str, total: str, b: str, element: str) -> str:
    """The text of a product of matrices of ``operand`` with sums of type ``total``: of its second
    argument and an ``element`` of that in row ``i`` and column ``x``."""
    return f"""
def product(m: size, n: size, k: size, A: {operand}[m, k], B: {b}):
    for y, x in range(m), range(n):
        C[y, x] = {total}(0)
    for y, x, i in ..., ..., range(k):
        C[y, x] += {total}(A[y, i]) * {element}
    return C
"""


class GemmU8(Kernel):
    """C[m, n] = sum over k of A[m, k] B[k, n], in u32 (modulo 2**32).

    Schedules made for a ``k`` that is a multiple of 4 take no other: their code refuses it.
    """

    name = "gemm_u8"
    summary = "matrix product, u8 x u8 -> u32"
    text = product("u8", "u32", "u8[k, n]", "u32(B[i, x])")
    params = (
        Param("m", 256, "rows of A and of C"),
        Param("n", 256, "columns of B and of C"),
        Param("k", 256, "columns of A, rows of B"),
    )

    operand: ClassVar[str] = "uint8"
    total: ClassVar[str] = "uint32"

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        return self.counts(params, macs=params["m"] * params["n"] * params["k"])

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y, k, lane, quad = (hl.Var(name) for name in ("x", "y", "k", "lane", "quad"))
        operand, total = (_halide_type(name) for name in (self.operand, self.total))
        a = hl.ImageParam(operand, 2, "A")
        b = hl.ImageParam(operand, 2, "B")
        columns, depth, rows = b.dim(0).extent(), a.dim(0).extent(), a.dim(1).extent()
        every = (hl.Expr(), hl.Expr())

        # Whole tiles are computed even at the edges of C: operands repeat beyond theirs. Of a quad
        # that is not whole, A is zero.
        packed_a = hl.Func("packed_a")
        if params["k"] % QUAD == 0:
            a.dim(0).set_extent(depth // QUAD * QUAD)
            packed_a[k, y] = a[k, hl.clamp(y, 0, rows - 1)]
            wide_b = hl.BoundaryConditions.repeat_edge(b, [(0, columns), every])
        else:
            whole_a = hl.BoundaryConditions.constant_exterior(
                a, hl.cast(operand, 0), [(0, depth), every]
            )
            packed_a[k, y] = whole_a[k, hl.clamp(y, 0, rows - 1)]
            wide_b = hl.BoundaryConditions.repeat_edge(b, [(0, columns), (0, depth)])
        packed_b = hl.Func("packed_b")
        packed_b[lane, x, quad] = self.unsigned(wide_b[x, QUAD * quad + lane])

        r = hl.RDom([(0, QUAD), (0, (depth + QUAD - 1) // QUAD)], "r")
        sums = hl.Func("sums")
        start, more_stages = self.start(a, y)
        sums[x, y] = start
        left, right = packed_a[QUAD * r.y + r.x, y], packed_b[r.x, x, r.y]
        sums[x, y] += hl.cast(total, left) * hl.cast(total, right)
        c = hl.Func("C")
        c[x, y] = sums[x, y]
        stages = {"packed_a": packed_a, "packed_b": packed_b, "sums": sums, "C": c}
        return HalidePipeline((a, b), c, {**stages, **more_stages})

    def unsigned(self, element: hl.Expr) -> hl.Expr:
        """The form in which ``element`` of B is packed."""
        return element

    def start(self, a: hl.ImageParam, row: hl.Var) -> tuple[hl.Expr, dict[str, hl.Func]]:
        """The initial value of the sums of a row of C, and the stages it needs."""
        import halide as hl

        return hl.cast(_halide_type(self.total), 0), {}

    def other_shapes(self, problem: Problem) -> list[dict[str, int]]:
        return [_alike(shape, problem) for shape in super().other_shapes(problem)]

    def verified_shapes(self, problem: Problem) -> dict[str, dict[str, int]]:
        shapes = super().verified_shapes(problem)
        return {name: _alike(shape, problem) for name, shape in shapes.items()}

    def far_shapes(self, problem: Problem) -> dict[str, dict[str, int]]:
        shapes = super().far_shapes(problem)
        return {name: _alike(shape, problem) for name, shape in shapes.items()}

    def space(self, problem: Problem) -> Space:
        params, words = problem.workload.params, problem.target.lanes(4)
        buffers = self.buffers(params)
        constants = {
            **tiling.extents(problem, ("n", params["n"], buffers[1]), m=params["m"]),
            "k": params["k"],
            "word_lanes": words,
            "static": int(problem.contract is Contract.STATIC),
        }
        knobs = _knobs(words, streams=tiling.streams(problem, buffers))
        return Space(self.name, knobs, _CONSTRAINTS, constants)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        bytes_, words = problem.target.lanes(1), problem.target.lanes(4)
        lanes = words if config.text("reduction") == "vrmpy" else bytes_
        rows_inner = config.text("order") == "rows_inner"
        inner, outer = ("yo", "xo") if rows_inner else ("xo", "yo")
        steps = Steps()
        c = steps.stage("C").compute_root()
        c.split("x", "xo", "xi", config.integer("tile_n"), tail(config, "tail_n"))
        c.split("y", "yo", "yi", config.integer("tile_m"), tail(config, "tail_m"))
        c.split("xi", "xv", "xi", lanes, _ROUND_UP).reorder("xi", "xv", "yi", inner, outer)
        c.vectorize("xi").unroll("xv").unroll("yi")

        sums = steps.stage("sums").compute_at("C", inner)
        _tile(sums, config, lanes).reorder("xi", "xv", "yi", "xo", "yo")
        sums.vectorize("xi").unroll("xv").unroll("yi")
        _reduce(steps.stage("sums", 0), config, bytes_, words)
        _pack(steps, problem, config, outer)
        _prefetch(steps, problem, config)
        return steps.directives

    def default_config(self, problem: Problem) -> Config:
        wanted: dict[str, KnobValue] = {"reduction": "plain", "tile_n": problem.target.lanes(1)}
        return self.space(problem).nearest_config(wanted)

    def textbook_config(self, problem: Problem) -> Config:
        """A 4 x 4 tile of vector registers, vrmpy, B packed once (HVX programming guides)."""
        wanted: dict[str, KnobValue] = {
            "reduction": "vrmpy",
            "tile_n": problem.target.lanes(1),
            "tile_m": 4,
            "pack_b": "root",
            "align_packed": "on",
            "pack_a": "none" if problem.workload.params["k"] % QUAD == 0 else "root",
            **tiling.TEXTBOOK_PREFETCH,
        }
        return self.space(problem).nearest_config(wanted)


def _alike(shape: dict[str, int], problem: Problem) -> dict[str, int]:
    """``shape`` with a ``k`` that code made for the problem takes."""
    is_whole = problem.workload.params["k"] % QUAD == 0
    return {**shape, "k": -(-shape["k"] // QUAD) * QUAD} if is_whole else shape


def _halide_type(dtype: str) -> hl.Type:
    """Halide's type for a NumPy name such as ``uint8``."""
    import halide as hl

    bits = 8 * np.dtype(dtype).itemsize
    return hl.UInt(bits) if dtype.startswith("u") else hl.Int(bits)


@cache
def _knobs(words: int, *, streams: bool) -> tuple[Knob, ...]:
    """All knobs. They are the same for every shape, which their conditions name by constants."""
    return (
        Knob("order", ("rows_inner", "columns_inner"), "inner loop over tiles of C"),
        Knob("tile_n", tuple(words * v for v in (1, 2, 3, 4, 6, 8)), "columns of a tile"),
        Knob("tile_m", (1, 2, 3, 4, 6, 8), "rows of a tile"),
        Knob("unroll_k", (1, 2, 4, 8), "steps of 4 along k in one iteration"),
        Knob("reduction", ("plain", "vrmpy"), "multiply-accumulate by lane, or by four bytes"),
        Knob("walk", ("columns_first", "rows_first"), "order inside a tile"),
        Knob("pack_b", ("none", "root", "panel"), "B interleaved: not, whole, by column tile"),
        Knob("pack_a", ("none", "root", "block"), "A copied: not, whole, by row tile"),
        Knob("align_packed", ("off", "on"), "storage of packed rows aligned to vectors"),
        tiling.tail_knob("tail_n", "tile_n", "n_multiple"),
        tiling.tail_knob("tail_m", "tile_m", "m_multiple"),
        *tiling.prefetch_knobs(streams=streams),
    )


_CONSTRAINTS = (
    Constraint(
        "reduction == 'vrmpy' or tile_n % byte_lanes == 0",
        "a plain product widens bytes: fewer than a whole byte vector makes wrong code",
    ),
    Constraint(
        "tile_n // word_lanes * tile_m <= 32",
        "a tile of sums beyond the 32 vector registers only spills",
    ),
    Constraint(
        "tile_n // word_lanes * tile_m * unroll_k <= 128",
        "longer loop bodies take seconds to compile and are never faster",
    ),
    Constraint(
        "reduction == 'vrmpy' or tile_n // word_lanes * tile_m * unroll_k <= 8",
        "a plain product needs three registers for each of the tile's, and long code",
    ),
    Constraint(
        "static == 0 or (k + 3) // 4 % unroll_k == 0",
        "a guard in the innermost loop costs more than unrolling gains",
    ),
    Constraint(
        "reduction == 'plain' or pack_b != 'none'",
        "vrmpy reads four rows of B interleaved",
    ),
    Constraint(
        "k % 4 == 0 or reduction == 'plain' or pack_a != 'none'",
        "where a quad is not whole, a copy of A has zeros in it",
    ),
    Constraint(
        "pack_b != 'panel' or order == 'rows_inner'",
        "with columns inside, every tile of rows would pack all of B again",
    ),
    Constraint(
        "pack_b != 'panel' or tile_n % byte_lanes == 0",
        "packing works on whole byte vectors",
    ),
    Constraint(
        "pack_a != 'block' or order == 'columns_inner'",
        "with rows inside, every tile of columns would pack all of A again",
    ),
    tiling.tail_constraint("tail_n", "tile_n", "n"),
    tiling.tail_constraint("tail_m", "tile_m", "m"),
)


def _tile(stage: Stage, config: Config, lanes: int) -> Stage:
    """Splits x into vectors and both loops by the tile, alike for both definitions of sums."""
    stage.split("x", "xv", "xi", lanes, _ROUND_UP)
    stage.split("xv", "xo", "xv", config.integer("tile_n") // lanes, _ROUND_UP)
    return stage.split("y", "yo", "yi", config.integer("tile_m"), _ROUND_UP)


def _reduce(update: Stage, config: Config, bytes_: int, words: int) -> None:
    vrmpy = config.text("reduction") == "vrmpy"
    _tile(update, config, words if vrmpy else bytes_)
    update.split("r$y", "ro", "ri", config.integer("unroll_k"))
    tile = ("xv", "yi") if config.text("walk") == "columns_first" else ("yi", "xv")
    if vrmpy:
        update.reorder("r$x", "xi", *tile, "ri", "ro", "xo", "yo")
    else:
        update.reorder("xi", *tile, "r$x", "ri", "ro", "xo", "yo")
    for loop in (*tile, "ri"):
        update.unroll(loop)
    update.vectorize("xi")
    if vrmpy:
        update.atomic().vectorize("r$x")
    else:
        update.unroll("r$x")


def _pack(steps: Steps, problem: Problem, config: Config, outer: str) -> None:
    lanes = problem.target.lanes(1)
    align = config.is_on("align_packed")
    if config.text("pack_b") != "none":
        b = steps.stage("packed_b")
        if config.text("pack_b") == "root":
            b.compute_root()
        else:
            b.compute_at("C", outer)
        if config.text("reduction") == "vrmpy":
            b.reorder_storage("lane", "x", "quad")
        else:
            b.reorder_storage("x", "lane", "quad")
        b.reorder("lane", "x", "quad").vectorize("x", lanes, _ROUND_UP).unroll("lane")
        if align:
            b.align_storage("x", lanes)
    if config.text("pack_a") != "none":
        a = steps.stage("packed_a")
        if config.text("pack_a") == "root":
            a.compute_root()
        else:
            a.compute_at("C", outer)
        whole = problem.contract in (Contract.STATIC, Contract.EXTENT)
        whole = whole and problem.workload.params["k"] % lanes == 0
        a.vectorize("k", lanes, _ROUND_UP if whole else TailStrategy.GUARD_WITH_IF)
        if align:
            a.align_storage("k", lanes)


def _prefetch(steps: Steps, problem: Problem, config: Config) -> None:
    """Has the outermost loops that read an operand fetch the data of later iterations."""
    distance = tiling.prefetch_distance(config)
    if not distance:
        return
    params, target = problem.workload.params, problem.target
    if config.text("pack_a") == "root":
        rows = tiling.prefetch_rows(distance, params["k"], target)
        steps.stage("packed_a").prefetch("A", "y", rows)
    else:
        steps.stage("C").prefetch("A", "yo", distance)
    # Not packed, B is read again by every tile, in rows too short to be worth fetching ahead.
    if config.text("pack_b") != "none":
        columns = params["n"] if config.text("pack_b") == "root" else config.integer("tile_n")
        quads = tiling.prefetch_rows(distance, QUAD * columns, target)
        steps.stage("packed_b").prefetch("B", "quad", quads)
