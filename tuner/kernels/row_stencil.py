"""2-D filters on u8 images as stages: pad rows, filter along rows, combine down columns.

``padded`` holds input rows with their edge pixels repeated, ``rows`` the filter along each row
(16 bit), ``combined`` several rows combined, and ``output`` is a copy of that. Shifts
along a row are done on bytes, before widening: shifting a vector costs one permute, however many
pixels it holds. Kernels of this shape are :class:`RowStencil`: they define their filters, and share
space and schedule.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tuner.kernels import tiling
from tuner.kernels.kernel import Kernel, Param, Problem
from tuner.space import Config, Constraint, Directive, Knob, KnobValue, Space
from tuner.space.directives import Steps, TailStrategy, tail

if TYPE_CHECKING:
    import halide as hl

_ROUND_UP = TailStrategy.ROUND_UP
_STEP_X = "vector_lanes * unroll_x"
EDGES = """
def stencil(height: size, width: size, input: u8[height, width]):
    for y, x in ...:
        edged[y, x] = i16(input[max(min(y, height - 1), 0), max(min(x, width - 1), 0)])
"""
"""Begins the text of a stencil: ``edged`` is its input, continued as its edges."""


class RowStencil(Kernel):
    """A filter of ``input`` (u8, rows of pixels) to ``output`` of the same shape, by the stages
    ``padded``, ``rows``, ``combined`` and ``output``."""

    params = (
        Param("width", 512, "pixels of a row"),
        Param("height", 64, "rows"),
    )

    def space(self, problem: Problem) -> Space:
        params = problem.workload.params
        buffers = self.buffers(params)
        width = ("width", params["width"], buffers[0])
        constants = tiling.extents(problem, width, height=params["height"])
        knobs = _knobs(problem.target.lanes(1), streams=tiling.streams(problem, buffers))
        return Space(problem.workload.kernel, knobs, _CONSTRAINTS, constants)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        steps = Steps()
        _schedule_output(steps, config)
        _schedule_rows(steps, config)
        _schedule_padded(steps, config, problem.target.lanes(1))
        _prefetch(steps, config)
        return steps.directives

    def textbook_config(self, problem: Problem) -> Config:
        """Line buffers, as in Halide's HVX examples: tiles of 4 rows that reuse earlier rows.

        Where L2 does not hold a padded copy as well, rows are padded when they are needed.
        """
        buffers = self.buffers(problem.workload.params)
        wanted: dict[str, KnobValue] = {
            "tile_rows": 4,
            "rows_at": "tile",
            "slide_rows": "on",
            "align_rows": "on",
        }
        if tiling.streams(problem, (*buffers, buffers[0])):
            wanted |= {"pad_at": "tile", "slide_pad": "on"}
        if tiling.streams(problem, buffers):
            wanted |= tiling.TEXTBOOK_PREFETCH
        return self.space(problem).nearest_config(wanted)


def repeat_edges(pixels: hl.ImageParam, radius: int) -> hl.Func:
    """``padded``: the rows of ``pixels`` with their ends repeated ``radius`` times.

    Halide's own boundary conditions would compare or gather within vectors at both ends of each
    row; copying the row and storing the few edge pixels is a fraction of that.
    """
    import halide as hl

    x, y = hl.Var("x"), hl.Var("y")
    width, height = pixels.dim(0).extent(), pixels.dim(1).extent()
    inner = hl.RDom([(0, width)], "inner")
    edge = hl.RDom([(0, radius)], "edge")
    row = hl.clamp(y, 0, height - 1)
    padded = hl.Func("padded")
    padded[x, y] = hl.undef(hl.UInt(8))
    padded[inner.x, y] = pixels[inner.x, row]
    padded[-1 - edge.x, y] = pixels[0, row]
    padded[width + edge.x, y] = pixels[width - 1, row]
    return padded


@cache
def _knobs(lanes: int, *, streams: bool) -> tuple[Knob, ...]:
    """All knobs. They are the same for every shape, which their conditions name by constants."""
    return (
        Knob("vector_lanes", (lanes, 2 * lanes), "pixels of a vector"),
        Knob("tile_rows", (1, 2, 4, 8), "output rows computed together"),
        Knob("unroll_x", (1, 2, 4), "output vectors in one iteration"),
        Knob("walk", ("down", "across"), "order inside a tile: column by column, or row by row"),
        Knob("rows_at", ("root", "tile"), "filtered rows: all at once, or per tile"),
        Knob("slide_rows", ("off", "on"), "tiles reuse filtered rows", when="rows_at == 'tile'"),
        Knob("filter_rows", (1, 2, 4), "rows filtered together"),
        Knob("filter_unroll", (1, 2, 4), "filtered vectors in one iteration"),
        Knob("pad_at", ("root", "tile", "filter"), "padded rows: at once, per tile, per filter"),
        Knob("slide_pad", ("off", "on"), "tiles reuse padded rows", when="pad_at == 'tile'"),
        Knob("copy_rows", (1, 2, 4), "rows padded together"),
        Knob("copy_unroll", (1, 2, 4), "copied vectors in one iteration"),
        Knob("align_rows", ("off", "on"), "storage of filtered rows aligned to vectors"),
        Knob(
            "stage_output",
            ("off", "on"),
            "results pass through an aligned buffer on their way to the output",
            when=f"width_multiple % ({_STEP_X}) != 0",
        ),
        tiling.tail_knob("tail_x", _STEP_X, "width_multiple"),
        tiling.tail_knob("tail_y", "tile_rows", "height_multiple"),
        *tiling.prefetch_knobs(streams=streams),
    )


_CONSTRAINTS = (
    Constraint(
        "vector_lanes // byte_lanes * tile_rows * unroll_x <= 16",
        "longer loop bodies take seconds to compile and are never faster",
    ),
    Constraint(
        "rows_at == 'tile' or pad_at != 'tile'",
        "rows filtered before the first tile cannot use rows padded inside it",
    ),
    Constraint(
        "pad_at != 'filter' or copy_rows <= filter_rows",
        "more rows than the filter asks for would be padded",
    ),
    # Halide 21 keeps 16-bit rows deinterleaved in memory, and takes that back too late where it
    # then meets a vector that may be unaligned (EliminateInterleaves in HexagonOptimize.cpp): the
    # output is wrong. The constraints below keep vectors aligned where the width is not known.
    Constraint(
        "stage_output == 'on' or tail_x == 'guard_with_if'",
        "a tile moved inwards reads filtered rows off vector boundaries: wrong code",
    ),
    Constraint(
        "stage_output == 'on' or tail_x != 'guard_with_if' or align_rows == 'on'",
        "guarded vectors of unaligned filtered rows: wrong code",
    ),
    Constraint(
        "stage_output == 'on' or tail_x != 'guard_with_if' or filter_unroll >= unroll_x",
        "guarded tiles read beyond the filtered rows: wrong code",
    ),
    Constraint(
        "stage_output == 'off' or tail_x == 'guard_with_if' or rows_at == 'tile'",
        "a moved copy of rows filtered before the first tile: wrong code",
    ),
    tiling.tail_constraint("tail_x", "vector_lanes", "width"),
    tiling.tail_constraint("tail_y", "tile_rows", "height"),
)


def _schedule_output(steps: Steps, config: Config) -> None:
    lanes = config.integer("vector_lanes")
    output = steps.stage("output").compute_root()
    output.split("y", "tile", "row", config.integer("tile_rows"), tail(config, "tail_y"))
    if config.is_on("stage_output"):
        output.vectorize("x", lanes, tail(config, "tail_x"))
        combined = steps.stage("combined").compute_at("output", "tile").align_bounds("x", lanes)
        combined.split("y", "tile", "row", config.integer("tile_rows"), _ROUND_UP)
        combined.split("x", "xo", "xi", lanes * config.integer("unroll_x"), _ROUND_UP)
    else:
        combined = output
        combined.split("x", "xo", "xi", lanes * config.integer("unroll_x"), tail(config, "tail_x"))
    combined.split("xi", "xu", "xi", lanes, _ROUND_UP)
    if config.text("walk") == "down":
        combined.reorder("xi", "xu", "row", "xo", "tile").unroll("row")
    else:
        combined.reorder("xi", "xu", "xo", "row", "tile")
    combined.vectorize("xi").unroll("xu")


def _schedule_rows(steps: Steps, config: Config) -> None:
    # The same vector width as the output: Halide 21 keeps widened values deinterleaved in memory
    # and makes wrong code where stages disagree on the width.
    lanes = config.integer("vector_lanes")
    rows = steps.stage("rows")
    if config.text("rows_at") == "root":
        rows.compute_root()
    else:
        rows.compute_at("output", "tile")
        if config.is_on("slide_rows"):
            rows.store_root()
    rows.split("y", "group", "row", config.integer("filter_rows"), _ROUND_UP)
    rows.split("x", "xo", "xi", lanes, _ROUND_UP)
    rows.split("xo", "xo", "xu", config.integer("filter_unroll"), _ROUND_UP)
    rows.reorder("xi", "xu", "row", "xo", "group")
    rows.vectorize("xi").unroll("xu").unroll("row")
    if config.is_on("align_rows"):
        rows.align_storage("x", lanes)


def _schedule_padded(steps: Steps, config: Config, lanes: int) -> None:
    padded = steps.stage("padded")
    if config.text("pad_at") == "root":
        padded.compute_root()
    elif config.text("pad_at") == "tile":
        padded.compute_at("output", "tile")
        if config.is_on("slide_pad"):
            padded.store_root()
    else:
        padded.compute_at("rows", "group")
    padded.align_bounds("x", lanes)  # so that pixel 0 lies on a vector boundary
    rows = config.integer("copy_rows")
    padded.split("y", "group", "row", rows, _ROUND_UP)  # makes room where the copies round up
    inner, *edges = (steps.stage("padded", update) for update in range(3))
    inner.vectorize("inner$x", lanes).unroll("inner$x", config.integer("copy_unroll"))
    for edge in edges:
        edge.unroll("edge$x")
    for copy in (inner, *edges):
        copy.unroll("y", rows, _ROUND_UP)


def _prefetch(steps: Steps, config: Config) -> None:
    """Has the outermost loop that reads the input fetch the rows of later iterations."""
    distance = tiling.prefetch_distance(config)
    if not distance:
        return
    pad_at, rows_at = config.text("pad_at"), config.text("rows_at")
    if pad_at == "root":
        steps.stage("padded", 0).prefetch("input", "y", distance)
    elif pad_at == "filter" and rows_at == "root":
        steps.stage("rows").prefetch("input", "group", distance)
    else:
        steps.stage("output").prefetch("input", "tile", distance)
