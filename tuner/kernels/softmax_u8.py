"""Softmax along the rows of u8 matrices, in fixed point.

Exponentials come from a table of how far an element is below the largest of its row, their sum is
turned into a multiplier and a shift, once a row. Both reductions go block by block, every lane on
its own, and across the lanes at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from tuner.kernels import tiling
from tuner.kernels.kernel import (
    Array,
    HalidePipeline,
    Kernel,
    Param,
    Problem,
    WorkCounts,
)
from tuner.space import Config, Directive, Knob, KnobValue, Space
from tuner.space.directives import Stage, Steps, TailStrategy, tail

_ROUND_UP = TailStrategy.ROUND_UP
_ENTRIES = 256
_BLOCK = 128
"""Elements that are reduced lane by lane: whole vectors of every target."""
_TABLE_READ = 16
"""Entries of 16 bits that one ``vlut16`` looks at (V66 HVX manual)."""
_SMALLEST, _LARGEST = 1 << 9, (1 << 24) - 1
"""Sums are held between: their reciprocals are 16-bit numbers shifted by 1 to 15 bits."""


class SoftmaxU8(Kernel):
    """output[y, x] = 256 e[y, x] / sum of e[y, :], e[y, x] = table[largest of row y - input[y, x]].

    ``table`` holds exp(-i * step of the input) in 2**-15, made when the network was compiled. With
    the sum s held within 2**9 and 2**24 - 1 and m = floor(log2 s)::

        n = s in 2**(m - 15), cut off: 16 bits with the highest one set
        a = (e * ((2**30 - 1) // n) + 2**14) >> 15
        output = saturate_u8(((a >> (m - 9)) + 1) >> 1)

    so that outputs are probabilities in 2**-8; 1 saturates at 255.
    """

    name = "softmax_u8"
    summary = "softmax along rows, u8, table of exponentials"
    text = """
def softmax_u8(height: size, width: size, input: u8[height, width], table: i16[256]):
    for y in range(height):
        largest[y] = u8(0)
    for y, x in ..., range(width):
        largest[y] = max(largest[y], input[y, x])
    for y, x in range(height), range(width):
        exponentials[y, x] = i32(table[i32(largest[y] - input[y, x])])
    for y in range(height):
        sums[y] = 0
    for y, x in ..., range(width):
        sums[y] += exponentials[y, x]
    for y in range(height):
        bits[y] = 31 - clz(max(min(sums[y], (1 << 24) - 1), 1 << 9))
    for y in range(height):
        total = max(min(sums[y], (1 << 24) - 1), 1 << 9)
        multipliers[y] = ((1 << 30) - 1) // (total >> bits[y] - 15)
    for y, x in range(height), range(width):
        scaled = exponentials[y, x] * multipliers[y] + (1 << 14) >> 15
        output[y, x] = u8_sat((scaled >> bits[y] - 9) + 1 >> 1)
    return output
"""
    unpromised = ("table",)
    params = (
        Param("width", 1024, "elements of a row"),
        Param("height", 32, "rows"),
    )

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Random elements; exponentials of a random step, or every row would be a flat one."""
        elements, _ = super().inputs(params, rng)
        step = rng.uniform(0.01, 0.2)
        table = np.round(np.exp(-step * np.arange(_ENTRIES)) * (2**15 - 1)).astype(np.int16)
        return [elements, table]

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Per element: the maximum and the difference, each vlut16's 16-bit result; on 16 bits
        # adding up and scaling; and the narrowing, a byte.
        elements = params["width"] * params["height"]
        lookups = 2 * _ENTRIES // _TABLE_READ
        return self.counts(
            params,
            lane_ops=(2 + lookups + 2 * 2 + 1) * elements,
            permuted_bytes=lookups // 2 * elements,  # a vlut16 makes two vectors at once
        )

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y, lane = hl.Var("x"), hl.Var("y"), hl.Var("lane")
        elements = hl.ImageParam(hl.UInt(8), 2, "input")
        table = hl.ImageParam(hl.Int(16), 1, "table")
        table.dim(0).set_bounds(0, _ENTRIES)
        width = elements.dim(0).extent()

        # Whole blocks are computed at the end of a row: the last element again raises no maximum.
        every = (hl.Expr(), hl.Expr())
        wide = hl.BoundaryConditions.repeat_edge(elements, [(0, width), every])
        blocks = hl.RDom([(0, (width + _BLOCK - 1) // _BLOCK)], "blocks")
        lanes = hl.RDom([(0, _BLOCK)], "lanes")
        at = _BLOCK * blocks.x + lane
        lane_maxima, maxima = hl.Func("lane_maxima"), hl.Func("maxima")
        lane_maxima[lane, y] = hl.u8(0)
        lane_maxima[lane, y] = hl.max(lane_maxima[lane, y], wide[at, y])
        maxima[y] = hl.u8(0)
        maxima[y] = hl.max(maxima[y], lane_maxima[lanes.x, y])

        exponentials = hl.Func("exponentials")
        exponentials[x, y] = table[hl.i32(maxima[y] - wide[x, y])]
        counted = hl.BoundaryConditions.constant_exterior(
            exponentials, hl.i16(0), [(0, width), every]
        )
        lane_sums, sums = hl.Func("lane_sums"), hl.Func("sums")
        lane_sums[lane, y] = hl.i32(0)
        lane_sums[lane, y] += hl.i32(counted[at, y])
        sums[y] = hl.i32(0)
        sums[y] += lane_sums[lanes.x, y]

        total = hl.clamp(sums[y], _SMALLEST, _LARGEST)
        bits = 31 - hl.i32(hl.count_leading_zeros(total))
        multipliers, shifts = hl.Func("multipliers"), hl.Func("shifts")
        normal = hl.select(bits > 15, total >> hl.max(bits - 15, 0), total << hl.max(15 - bits, 0))
        multipliers[y] = hl.i16((2**30 - 1) // normal)
        shifts[y] = hl.i16(bits - 9)
        scaled = hl.Func("scaled")
        product = hl.rounding_mul_shift_right(exponentials[x, y], multipliers[y], hl.u16(15))
        # All but the last bit are cut off, so that rounding goes by the last one.
        scaled[x, y] = hl.u8_sat(hl.rounding_shift_right(product >> shifts[y], hl.u16(1)))
        output = hl.Func("output")
        output[x, y] = scaled[x, y]
        stages = {
            "lane_maxima": lane_maxima,
            "maxima": maxima,
            "exponentials": exponentials,
            "lane_sums": lane_sums,
            "sums": sums,
            "multipliers": multipliers,
            "shifts": shifts,
            "scaled": scaled,
            "output": output,
        }
        return HalidePipeline((elements, table), output, stages)

    def space(self, problem: Problem) -> Space:
        params = problem.workload.params
        buffers = self.buffers(params)
        width = ("width", params["width"], buffers[0])
        constants = tiling.extents(problem, width, height=params["height"])
        return Space(
            self.name, _knobs(streams=tiling.streams(problem, buffers)), _CONSTRAINTS, constants
        )

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        lanes = problem.target.lanes(1)
        steps = Steps()
        output = steps.stage("output").compute_root()
        output.split("y", "tile", "row", config.integer("tile_rows"), tail(config, "tail_y"))
        output.split("x", "xo", "xi", lanes * config.integer("unroll_x"), tail(config, "tail_x"))
        output.split("xi", "xu", "xi", lanes, _ROUND_UP)
        output.reorder("xi", "xu", "xo", "row", "tile").vectorize("xi").unroll("xu")
        if "tail_x" in config:
            # Only the copy depends on the width: its source is computed in whole, aligned vectors.
            scaled = _place(steps.stage("scaled"), config).align_bounds("x", lanes)
            scaled.vectorize("x", lanes, _ROUND_UP)
            scaled.unroll("x", config.integer("unroll_x"), _ROUND_UP)
        if config.text("exponentials_at") == "tile":
            exponentials = _place(steps.stage("exponentials"), config)
            exponentials.vectorize("x", lanes, _ROUND_UP)
            exponentials.unroll("x", config.integer("unroll_x"), _ROUND_UP)
        for across, along in (("maxima", "lane_maxima"), ("sums", "lane_sums")):
            _schedule_reduction(steps, config, across, along, lanes)
        for name in ("multipliers", "shifts"):
            _place(steps.stage(name), config)
        _prefetch(steps, config)
        return steps.directives

    def textbook_config(self, problem: Problem) -> Config:
        """Rows in the cache from the maximum to the output, reduced in vectors."""
        wanted: dict[str, KnobValue] = {
            "reduction": "vectors",
            "rows_at": "tile",
            "exponentials_at": "tile",
            "unroll_x": 2,
            "unroll_reduction": 2,
            **tiling.TEXTBOOK_PREFETCH,
        }
        return self.space(problem).nearest_config(wanted)


@cache
def _knobs(*, streams: bool) -> tuple[Knob, ...]:
    """All knobs. They are the same for every shape, which their conditions name by constants."""
    return (
        Knob("tile_rows", (1, 2, 4, 8), "rows of a tile"),
        Knob("rows_at", ("root", "tile"), "reductions: of all rows at once, or tile by tile"),
        Knob("exponentials_at", ("inline", "tile"), "looked up twice, or kept"),
        Knob("reduction", ("plain", "vectors"), "element by element, or lane by lane"),
        Knob("unroll_x", (1, 2, 4), "vectors in one iteration"),
        Knob(
            "unroll_reduction",
            (1, 2, 4),
            "vectors reduced in one iteration",
            when="reduction == 'vectors'",
        ),
        tiling.tail_knob("tail_x", "byte_lanes * unroll_x", "width_multiple"),
        tiling.tail_knob("tail_y", "tile_rows", "height_multiple"),
        *tiling.prefetch_knobs(streams=streams),
    )


_CONSTRAINTS = (
    tiling.tail_constraint("tail_x", "byte_lanes * unroll_x", "width"),
    tiling.tail_constraint("tail_y", "tile_rows", "height"),
)


def _place(stage: Stage, config: Config) -> Stage:
    if config.text("rows_at") == "root":
        return stage.compute_root()
    return stage.compute_at("output", "tile")


def _schedule_reduction(steps: Steps, config: Config, across: str, along: str, lanes: int) -> None:
    """``along`` reduces a row lane by lane, ``across`` the lanes."""
    for name in (across, along):
        _place(steps.stage(name), config)
    if config.text("reduction") == "vectors":
        steps.stage(along).vectorize("lane", lanes)
        update = steps.stage(along, 0).reorder("lane", "blocks$x", "y").vectorize("lane", lanes)
        update.unroll("blocks$x", config.integer("unroll_reduction"))
        steps.stage(across, 0).atomic().vectorize("lanes$x", lanes)


def _prefetch(steps: Steps, config: Config) -> None:
    """Has every loop through the input fetch the rows of later iterations."""
    distance = tiling.prefetch_distance(config)
    if not distance:
        return
    steps.stage("output").prefetch("input", "tile", distance)
    if config.text("rows_at") == "root":
        for along in ("lane_maxima", "lane_sums"):
            steps.stage(along, 0).prefetch("input", "y", distance)
