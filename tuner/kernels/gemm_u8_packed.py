"""Matrix product of u8 operands of which the second was packed ahead of time.

In networks B is constant: it is packed once, by :func:`pack_quads`, and no call spends time on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from tuner.errors import UserError
from tuner.kernels import gemm_u8, tiling
from tuner.kernels.byte_sums import SIGN
from tuner.kernels.gemm_u8 import QUAD, GemmU8
from tuner.kernels.kernel import Array, HalidePipeline, Problem
from tuner.space import Config, Constraint, Directive, KnobValue, Space, Steps

_PACKED: dict[str, KnobValue] = {"reduction": "vrmpy", "pack_b": "ahead"}
"""Choices of ``gemm_u8`` that the layout of B has made."""
QUADS, QUADS_AT = "u8[(k + 3) // 4, 4 * n]", "B[i // 4, 4 * x + i % 4]"
"""B and its element in row ``i`` and column ``x``, in the text of a program."""
_GUARDED = Constraint(
    "tail_n == 'shift_inwards' or tile_n == word_lanes",
    "a guarded tile reads behind the last column of B: less than a vector",
)


def pack_quads(b: Array) -> Array:
    """The packed form of ``b``, u8 or i8 of shape (k, n): u8 of shape (ceil(k / 4), 4 n) with
    ``packed[q, 4 * x + lane] = b[4 * q + lane, x]``, and zeros for rows that ``b`` lacks. To
    elements of i8 128 is added, as ``vrmpy`` wants them unsigned.

    Raises ``UserError`` if ``b`` has another dtype or number of dimensions.
    """
    if b.ndim != 2 or b.dtype not in (np.uint8, np.int8):
        raise UserError(
            f"an array of {b.dtype} with {b.ndim} dimensions cannot be packed",
            accepted="uint8 or int8 of two dimensions: the rows and columns of B",
            next_step="convert it first, as by b.astype('uint8')",
        )
    n = b.shape[1]
    unsigned = b if b.dtype == np.uint8 else b.view(np.uint8) ^ SIGN
    quads = np.pad(unsigned, ((0, -len(b) % QUAD), (0, 0))).reshape(-1, QUAD, n)
    return np.ascontiguousarray(quads.swapaxes(1, 2)).reshape(-1, QUAD * n)


class GemmU8Packed(GemmU8):
    """C[m, n] = sum over k of A[m, k] B[k, n], in u32 (modulo 2**32), where B comes as
    :func:`pack_quads` returns it: four of its rows interleaved.

    Of the last quad of rows, those from ``k`` on must be zero. As with ``gemm_u8``, schedules made
    for a ``k`` that is a multiple of 4 take no other.
    """

    name = "gemm_u8_packed"
    summary = "matrix product, u8 x u8 -> u32, B packed ahead of time"
    text = gemm_u8.product("u8", "u32", QUADS, f"u32({QUADS_AT})")

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Random, with zeros where there is no row of B."""
        return self.allowed_inputs(params, super().inputs(params, rng))

    def allowed_inputs(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        a, packed = inputs
        return [a, pack_quads(self._unpacked(packed, params))]

    def _unpacked(self, packed: Array, params: Mapping[str, int]) -> Array:
        """B of which ``packed`` is the packed form: (k, n)."""
        quads = packed.reshape(-1, params["n"], QUAD)
        rows = np.ascontiguousarray(quads.swapaxes(1, 2)).reshape(-1, params["n"])[: params["k"]]
        return rows if self.operand == rows.dtype else (rows ^ SIGN).view(self.operand)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        plain = super().pipeline(params)
        a, packed_a = plain.inputs[0], plain.stages["packed_a"]
        b = hl.ImageParam(hl.UInt(8), 2, "B")
        x, y = hl.Var("x"), hl.Var("y")
        width, depth = b.dim(0).extent(), a.dim(0).extent()

        r = hl.RDom([(0, QUAD), (0, (depth + QUAD - 1) // QUAD)], "r")
        sums, c = hl.Func("sums"), hl.Func("C")
        start, more_stages = self.start(a, y)
        total = start.type()
        sums[x, y] = start
        # Clamped like the columns of gemm_u8, bytes of B would be gathered one by one. Only guarded
        # tiles break this promise, and what they read beyond is not stored.
        byte = hl.unsafe_promise_clamped(QUAD * x + r.x, 0, width - 1)
        left, right = packed_a[QUAD * r.y + r.x, y], b[byte, r.y]
        sums[x, y] += hl.cast(total, left) * hl.cast(total, right)
        c[x, y] = sums[x, y]
        # Checked at each call, for Halide checks no columns of B.
        c.output_buffer().dim(0).set_extent(width // QUAD)
        stages = {"packed_a": packed_a, "sums": sums, "C": c}
        return HalidePipeline((a, b), c, {**stages, **more_stages})

    def space(self, problem: Problem) -> Space:
        """That of ``gemm_u8`` without the choices that the layout of B makes."""
        inherited, params = super().space(problem), problem.workload.params
        columns = "n", params["n"], self.buffers(params)[-1]
        known = {**inherited.constants, **tiling.extents(problem, columns, m=params["m"])}
        in_vectors = int(known["n_multiple"]) % problem.target.lanes(4) == 0
        knobs = []
        for knob in inherited.knobs:
            if knob.name == "align_packed":
                knobs.append(replace(knob, when="pack_a != 'none'"))
            elif knob.name == "tail_n" and in_vectors:
                knobs.append(replace(knob, choices=("shift_inwards",)))
            elif knob.name not in _PACKED:
                knobs.append(knob)
        constraints = (*inherited.constraints, _GUARDED)
        return Space(self.name, tuple(knobs), constraints, {**known, **_PACKED})

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        """That of ``gemm_u8``, with B read where it lies."""
        steps = Steps()
        if distance := tiling.prefetch_distance(config):
            steps.stage("C").prefetch("B", "xo", distance)
        given = Config({"align_packed": "off", **config, **_PACKED, "pack_b": "none"})
        return [*super().schedule(problem, given), *steps.directives]

    def default_config(self, problem: Problem) -> Config:
        return self.space(problem).nearest_config({"tile_n": problem.target.lanes(1)})

    def textbook_config(self, problem: Problem) -> Config:
        """Vectors of sums in the tile that takes the fewest packets. B is read where it lies, and A
        if its rows are whole quads."""
        params, words = problem.workload.params, problem.target.lanes(4)
        tall, wide = _textbook_tile(params["m"], -(-params["n"] // words))
        wanted: dict[str, KnobValue] = {
            "tile_m": tall,
            "tile_n": words * wide,
            "unroll_k": 2,
            "pack_a": "none" if params["k"] % QUAD == 0 else "root",
            "align_packed": "on",
            # What is read once is waited for: 1x4096x1024 takes 1.5 times the cycles with prefetch.
            **(tiling.TEXTBOOK_PREFETCH if tall < params["m"] else {}),
        }
        return self.space(problem).nearest_config(wanted)


def _textbook_tile(rows: int, vectors: int) -> tuple[int, int]:
    """Rows and vectors of a tile for ``rows`` of that many ``vectors``: at most four vectors of a
    row, and sixteen in all. A packet has two products and one load. Of those alike, the largest."""

    def cost(tile: tuple[int, int]) -> tuple[float, int]:
        tall, wide = tile
        packets = -(-rows // tall) * -(-vectors // wide) * max(tall * wide / 2, wide)
        return packets, -tall * wide

    tiles = product((1, 2, 3, 4, 6, 8), (4, 3, 2, 1))
    return min((tile for tile in tiles if tile[0] <= rows and prod(tile) <= 16), key=cost)
