"""Bilinear resizing of u8 images, any scale up to 2:1 down.

Rows are resized first, then columns. Which pixels a column of the output lies between is the same
in every row: tables of it are made once. A block of columns lies within 256 pixels of the input, so
that its pixels are told apart by a byte: HVX looks bytes up in its registers (``vlut32``), and need
not gather them from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from tuner.kernels import tiling
from tuner.kernels.kernel import (
    HalidePipeline,
    Kernel,
    Param,
    Problem,
    WorkCounts,
)
from tuner.space import Config, Constraint, Directive, Knob, KnobValue, Space
from tuner.space.directives import Steps, TailStrategy, tail

if TYPE_CHECKING:
    import halide as hl

_ROUND_UP = TailStrategy.ROUND_UP
_UNIT_BITS = 14
"""A scale of 1 is ``2**14``: with the largest scale and extent, positions fit 32 bits."""
_WEIGHT_BITS = 7
"""Weights of two pixels add up to 128: products of bytes with them fit signed 16 bits."""
_BLOCK = 128
"""Columns that share a start in the input. At scale 2 they lie between 256 pixels."""
_LUT_READ = 32
"""Bytes that one ``vlut32`` chooses from (V66 HVX manual)."""


class ResizeBilinearU8(Kernel):
    """output[y, x] = the input at (y, x) * scale, centres on centres, from the 2x2 pixels around.

    Column x lies at p = x * scale_x + (scale_x - 2**14) // 2, in 2**-14 pixels of the input:
    between pixels i = p >> 14 and i + 1 (or the nearest ones inside), the second with weight
    w = (p >> 7) & 127: ((128 - w) * first + w * second + 64) >> 7. Rows likewise, of what that
    gives.
    """

    name = "resize_bilinear_u8"
    summary = "bilinear resizing, u8, fixed-point weights"
    text = """
def resize_bilinear_u8(height: size, width: size, input: u8[
        height * scale_y + 16383 >> 14, width * scale_x + 16383 >> 14]):
    for y, x in ...:
        at = x * scale_x + (scale_x - 16384) // 2
        last = (width * scale_x + 16383 >> 14) - 1
        first = u16(input[y, max(min(at >> 14, last), 0)])
        second = u16(input[y, max(min((at >> 14) + 1, last), 0)])
        weight = u16(at >> 7 & 127)
        rows[y, x] = u8((128 - weight) * first + weight * second + 64 >> 7)
    for y, x in range(height), range(width):
        at = y * scale_y + (scale_y - 16384) // 2
        last = (height * scale_y + 16383 >> 14) - 1
        first = u16(rows[max(min(at >> 14, last), 0), x])
        second = u16(rows[max(min((at >> 14) + 1, last), 0), x])
        weight = u16(at >> 7 & 127)
        output[y, x] = u8((128 - weight) * first + weight * second + 64 >> 7)
    return output
"""
    unpromised = ("input",)
    params = (
        Param("width", 1024, "pixels of a row of the output", maximum=32768),
        Param("height", 32, "rows of the output", maximum=32768),
        *(
            Param(
                f"scale_{axis}",
                10923,
                f"{what} of the input for one of the output, in 2**-14",
                1 << (_UNIT_BITS - 4),
                2 << _UNIT_BITS,
                is_extent=False,
            )
            for axis, what in (("x", "columns"), ("y", "rows"))
        ),
    )

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Every row of the input that is used, resized: two look-ups, each in what a block lies
        # between, two products and their narrowing; and two products and narrowing for a pixel.
        source, result = self.buffers(params)
        pixels = result.payload_bytes
        resized = min(source.shape[0], 2 * params["height"]) * params["width"]
        lookups = 2 * -(-(_reach(params["scale_x"]) + 1) // _LUT_READ)
        return self.counts(
            params,
            macs=2 * (resized + pixels),
            lane_ops=(lookups + 2) * resized + 2 * pixels,
            permuted_bytes=lookups * resized,
        )

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y, block = (hl.Var(name) for name in ("x", "y", "block"))
        image = hl.ImageParam(hl.UInt(8), 2, "input")
        width, height = image.dim(0).extent(), image.dim(1).extent()
        scale_x, scale_y = params["scale_x"], params["scale_y"]

        # Looking up reads whole tables of pixels: rows are copied to buffers that are long enough.
        inner = hl.RDom([(0, width)], "inner")
        padded = hl.Func("padded")
        padded[x, y] = hl.undef(hl.UInt(8))
        padded[inner.x, y] = image[inner.x, hl.clamp(y, 0, height - 1)]

        starts = hl.Func("starts")
        starts[block] = hl.clamp(_before(_BLOCK * block, scale_x), 0, width - 1)
        start = hl.clamp(starts[x // _BLOCK], 0, width - 1)
        first, second, weights = (hl.Func(name) for name in ("first", "second", "weights"))
        for step, table in enumerate((first, second)):
            found = hl.clamp(_before(x, scale_x) + step, 0, width - 1)
            table[x] = hl.u8(found - starts[x // _BLOCK])
        weights[x] = hl.u8(_weight(x, scale_x))
        reach = hl.u8(_reach(scale_x))
        left, right = (
            padded[start + hl.i32(hl.min(table[x], reach)), y] for table in (first, second)
        )
        rows = hl.Func("rows")
        rows[x, y] = _between(left, right, weights[x])

        above, below = (
            rows[x, hl.clamp(_before(y, scale_y) + step, 0, height - 1)] for step in (0, 1)
        )
        output = hl.Func("output")
        output[x, y] = _between(above, below, hl.u8(_weight(y, scale_y)))
        stages = (padded, starts, first, second, weights, rows, output)
        names = ("padded", "starts", "first", "second", "weights", "rows", "output")
        return HalidePipeline((image,), output, dict(zip(names, stages, strict=True)))

    def space(self, problem: Problem) -> Space:
        params = problem.workload.params
        buffers = self.buffers(params)
        width = ("width", params["width"], buffers[-1])
        constants = tiling.extents(problem, width, height=params["height"])
        knobs = _knobs(problem.target.lanes(1), streams=tiling.streams(problem, buffers))
        return Space(self.name, knobs, _CONSTRAINTS, constants)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        lanes = config.integer("vector_lanes")
        steps = Steps()
        output = steps.stage("output").compute_root()
        output.split("y", "tile", "row", config.integer("tile_rows"), tail(config, "tail_y"))
        output.split("x", "xo", "xi", lanes * config.integer("unroll_x"), tail(config, "tail_x"))
        output.split("xi", "xu", "xi", lanes, _ROUND_UP)
        output.reorder("xi", "xu", "xo", "row", "tile").vectorize("xi").unroll("xu")
        if config.text("rows_at") != "inline":
            _schedule_rows(steps, config, problem.target.lanes(1))
        _schedule_tables(steps, problem.target.lanes(1))
        padded = steps.stage("padded")
        if config.text("pad_at") == "root":
            padded.compute_root()
        else:
            padded.compute_at("rows", "group")
        padded.align_storage("x", problem.target.lanes(1))
        copy = steps.stage("padded", 0)
        copy.vectorize("inner$x", problem.target.lanes(1))
        copy.unroll("inner$x", config.integer("copy_unroll"))
        _prefetch(steps, config)
        return steps.directives

    def default_config(self, problem: Problem) -> Config:
        """Vectors of the output, each from its four pixels of the input."""
        return self.space(problem).nearest_config({"rows_at": "inline"})

    def textbook_config(self, problem: Problem) -> Config:
        """Each direction on its own, eight vectors in flight: a look-up is many steps.

        Two rows share what is looked up. Copied and resized rows that the cache does not hold are
        made when they are needed and used while they are there.
        """
        params = problem.workload.params
        wanted: dict[str, KnobValue] = {
            "rows_at": "root",
            "group_rows": 2,
            "row_unroll": 4,
            "unroll_x": 2,
            "copy_unroll": 2,
            **tiling.TEXTBOOK_PREFETCH,
        }
        resized_bytes = self.buffers(params)[0].shape[0] * params["width"]
        if resized_bytes > problem.target.l2_bytes // 2:
            wanted |= {"rows_at": "tile", "slide_rows": "on", "tile_rows": 8, "pad_at": "group"}
        return self.space(problem).nearest_config(wanted)


def _position(at: hl.Expr, scale: int) -> hl.Expr:
    return at * scale + (scale - (1 << _UNIT_BITS)) // 2


def _before(at: hl.Expr, scale: int) -> hl.Expr:
    """The pixel before ``at``."""
    return _position(at, scale) // (1 << _UNIT_BITS)


def _weight(at: hl.Expr, scale: int) -> hl.Expr:
    """That of the pixel after ``at``."""
    return _position(at, scale) // (1 << (_UNIT_BITS - _WEIGHT_BITS)) % (1 << _WEIGHT_BITS)


def _reach(scale: int) -> int:
    """How many pixels after its start a block of columns may end."""
    return -(-(_BLOCK - 1) * scale >> _UNIT_BITS) + 1


def _between(first: hl.Expr, second: hl.Expr, weight: hl.Expr) -> hl.Expr:
    """The u8 between two, the second weighted by ``weight``."""
    import halide as hl

    whole = hl.u8(1 << _WEIGHT_BITS)
    total = hl.widening_mul(first, whole - weight) + hl.widening_mul(second, weight)
    return hl.u8_sat(hl.rounding_shift_right(hl.i16(total), hl.u16(_WEIGHT_BITS)))


@cache
def _knobs(lanes: int, *, streams: bool) -> tuple[Knob, ...]:
    """All knobs. They are the same for every shape, which their conditions name by constants."""
    rows = "rows_at != 'inline'"
    return (
        Knob("vector_lanes", (lanes, 2 * lanes), "pixels of a vector of the output"),
        Knob("tile_rows", (1, 2, 4, 8), "output rows computed together"),
        Knob("unroll_x", (1, 2, 4), "output vectors in one iteration"),
        Knob("rows_at", ("inline", "root", "tile"), "resized rows: not kept, at once, per tile"),
        Knob("slide_rows", ("off", "on"), "tiles reuse resized rows", when="rows_at == 'tile'"),
        Knob("group_rows", (1, 2, 4), "rows resized together", when=rows),
        Knob("row_unroll", (1, 2, 4), "blocks of a row resized in one iteration", when=rows),
        Knob("pad_at", ("root", "group"), "copied rows: all at once, or before they are resized"),
        Knob("copy_unroll", (1, 2), "copied vectors in one iteration"),
        tiling.tail_knob("tail_x", "vector_lanes * unroll_x", "width_multiple"),
        tiling.tail_knob("tail_y", "tile_rows", "height_multiple"),
        *tiling.prefetch_knobs(streams=streams),
    )


_CONSTRAINTS = (
    Constraint(
        "pad_at == 'root' or rows_at != 'inline'",
        "there are no resized rows before which to copy",
    ),
    Constraint(
        "rows_at != 'inline' or vector_lanes == byte_lanes and unroll_x == 1",
        "pixels gathered one by one: longer loop bodies take seconds to compile",
    ),
    Constraint(
        "rows_at != 'inline' or tail_x != 'guard_with_if'",
        "pixels looked up under a guard: Halide 21 fails",
    ),
    Constraint(
        "group_rows * row_unroll <= 8",
        "longer loop bodies take seconds to compile and are never faster",
    ),
    tiling.tail_constraint("tail_x", "vector_lanes * unroll_x", "width"),
    tiling.tail_constraint("tail_y", "tile_rows", "height"),
)


def _schedule_rows(steps: Steps, config: Config, lanes: int) -> None:
    rows = steps.stage("rows")
    if config.text("rows_at") == "root":
        rows.compute_root()
    else:
        rows.compute_at("output", "tile")
        if config.is_on("slide_rows"):
            rows.store_root()
    rows.split("y", "group", "row", config.integer("group_rows"), _ROUND_UP)
    rows.split("x", "xo", "xi", lanes, _ROUND_UP)
    rows.split("xo", "xo", "xu", config.integer("row_unroll"), _ROUND_UP)
    rows.reorder("xi", "row", "xu", "xo", "group")
    rows.vectorize("xi").unroll("row").unroll("xu")
    rows.align_bounds("x", _BLOCK)


def _schedule_tables(steps: Steps, lanes: int) -> None:
    steps.stage("starts").compute_root()
    for name in ("first", "second", "weights"):
        stage = steps.stage(name).compute_root().align_bounds("x", _BLOCK)
        stage.vectorize("x", lanes, _ROUND_UP)


def _prefetch(steps: Steps, config: Config) -> None:
    """Has the outermost loop that copies the input fetch the rows of later iterations."""
    distance = tiling.prefetch_distance(config)
    if not distance:
        return
    if config.text("pad_at") == "root":
        steps.stage("padded", 0).prefetch("input", "y", distance)
    elif config.text("rows_at") == "root":
        steps.stage("rows").prefetch("input", "group", distance)
    else:
        steps.stage("output").prefetch("input", "tile", distance)
