"""3x3 depthwise convolution of u8 NHWC images with i8 weights, requantized to u8.

Channels are the vector lanes. For ``vrmpy``, which sums four byte products per 32-bit lane, four
horizontal neighbours of each channel lie interleaved (``quads``). With stride 1 one quad serves two
pixels, the even one with the weights w0 w1 w2 0, the odd one with 0 w0 w1 w2; with stride 2 it
serves one, like the even one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import ClassVar

from tuner.kernels import requantize, tiling
from tuner.kernels.conv2d_u8 import padded_text
from tuner.kernels.kernel import (
    HalidePipeline,
    Kernel,
    Param,
    Problem,
    WorkCounts,
)
from tuner.space import Config, Constraint, Directive, Knob, KnobValue, Space
from tuner.space.directives import Stage, Steps, TailStrategy, tail

_ROUND_UP = TailStrategy.ROUND_UP
_SIZE = 3
_FEW_CHANNELS = 64
_PAIR = 2
"""Pixels that share a quad."""


class DepthwiseConv2dU8(Kernel):
    """Requantized sums of (input - zero_in) * weights over 3x3, centred at every ``stride`` pixels.

    Beyond the image, input is ``zero_in`` (it adds nothing). ``requantize.py`` says how sums become
    u8. A ``pre_shift`` of 4 loses nothing to saturation (|sum| <= 9 * 255 * 128).
    """

    name = "depthwise_conv2d_u8"
    version = 2  # with a stride
    summary = "3x3 depthwise convolution, u8 NHWC x i8 -> u8, requantized"
    text = f"""
def depthwise_conv2d_u8(height: size, width: size, channels: size,
        input: u8[height, width, channels], weights: i8[3, 3, channels]):
{padded_text("zero_in")}
    for y, x, c in ...:
        sums[y, x, c] = 0
    for y, x, c, i, j in ..., ..., ..., range(3), range(3):
        pixel = padded[stride * y + i - 1, stride * x + j - 1, c]
        sums[y, x, c] += (i32(pixel) - zero_in) * i32(weights[i, j, c])
    for y, x, c in range((height + stride - 1) // stride), range((width + stride - 1) // stride), \
            range(channels):
        output[y, x, c] = {requantize.text("sums[y, x, c]")}
    return output
"""
    unpromised: ClassVar[tuple[str, ...]] = ("weights",)
    params = (
        Param("height", 32, "rows of the input"),
        Param("width", 32, "pixels of a row of the input"),
        Param("channels", 128, "channels"),
        Param("stride", 1, "pixels from window to window, both ways", 1, 2, is_extent=False),
        Param("zero_in", 128, "zero point of the input", 0, 255, is_extent=False),
        *requantize.params(pre_shift=4, shift=6),
    )

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Requantization narrows at least: to 16 bits, and to a byte.
        outputs = self.buffers(params)[-1].payload_bytes
        return self.counts(params, macs=_SIZE * _SIZE * outputs, lane_ops=3 * outputs)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        c, x, y, lane, odd = (hl.Var(name) for name in ("c", "x", "y", "lane", "odd"))
        image = hl.ImageParam(hl.UInt(8), 3, "input")
        weights = hl.ImageParam(hl.Int(8), 3, "weights")
        for dimension in (1, 2):
            weights.dim(dimension).set_bounds(0, _SIZE)
        channels, width, height = (image.dim(i).extent() for i in range(3))

        # Whole vectors are computed even beyond the last channel; the excess is not used.
        every = (hl.Expr(), hl.Expr())
        wide_image = hl.BoundaryConditions.repeat_edge(image, [(0, channels), every, every])
        wide_weights = hl.BoundaryConditions.repeat_edge(weights, [(0, channels), every, every])
        zero = hl.u8(params["zero_in"])
        padded = hl.BoundaryConditions.constant_exterior(
            wide_image, zero, [every, (0, width), (0, height)]
        )
        quads = hl.Func("quads")
        quads[lane, c, x, y] = padded[c, _PAIR * x + lane - 1, y]
        packed_weights = hl.Func("packed_weights")
        tap = lane - odd
        packed_weights[lane, c, odd, y] = hl.select(
            (tap >= 0) & (tap < _SIZE), wide_weights[c, hl.clamp(tap, 0, _SIZE - 1), y], hl.i8(0)
        )

        # sum (input - zero) w = sum input w - zero sum w, and the last is one value per channel.
        # Of few channels, Halide would load vectors beyond the input: those that are packed serve.
        are_few = params["channels"] < _FEW_CHANNELS
        weight_sums = hl.Func("weight_sums")
        taps = [
            packed_weights[i, c, 0, j] if are_few else wide_weights[c, i, j]
            for i in range(_SIZE)
            for j in range(_SIZE)
        ]
        weight_sums[c] = sum(map(hl.i16, taps), hl.i16(0))
        corrections = hl.Func("corrections")
        corrections[c] = hl.widening_mul(weight_sums[c], hl.i16(-params["zero_in"]))
        r = hl.RDom([(0, _PAIR * 2), (0, _SIZE)], "r")
        sums = hl.Func("sums")
        sums[c, x, y] = corrections[c]
        quad, parity = (x / _PAIR, x % _PAIR) if params["stride"] == 1 else (x, 0)
        neighbours = quads[r.x, c, quad, params["stride"] * y + r.y - 1]
        sums[c, x, y] += hl.i32(neighbours) * hl.i32(packed_weights[r.x, c, parity, r.y])
        output = hl.Func("output")
        output[c, x, y] = requantize.expression(sums[c, x, y], params)
        stages = (quads, packed_weights, weight_sums, corrections, sums, output)
        names = ("quads", "packed_weights", "weight_sums", "corrections", "sums", "output")
        return HalidePipeline((image, weights), output, dict(zip(names, stages, strict=True)))

    def space(self, problem: Problem) -> Space:
        buffers = self.buffers(problem.workload.params)
        height, width, channels = buffers[-1].shape
        inner = ("channels", channels, buffers[-1])
        constants = tiling.extents(problem, inner, height=height, width=width)
        knobs = _knobs(streams=tiling.streams(problem, buffers))
        return Space(self.name, knobs, _CONSTRAINTS, constants)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        lanes = problem.target.lanes(1)
        steps = Steps()
        output = steps.stage("output").compute_root()
        output.split("c", "co", "ci", lanes, tail(config, "tail_c"))
        outer = tiling.tile_pixels(output, config)
        output.reorder("ci", "xi", "yi", *outer).vectorize("ci").unroll("xi").unroll("yi")
        _schedule_sums(steps, config, problem, outer[0])
        _schedule_quads(steps, config, lanes, outer[0])
        for name in ("packed_weights", "weight_sums", "corrections"):
            stage = steps.stage(name).compute_root()
            if name == "packed_weights":
                _lay_out(stage, config, "odd").unroll("lane")
            # Half a byte vector of 32-bit corrections: the width at which they are multiplied.
            stage.vectorize("c", lanes // 2 if name == "corrections" else lanes, _ROUND_UP)
        _prefetch(steps, config)
        return steps.directives

    def default_config(self, problem: Problem) -> Config:
        return self.space(problem).nearest_config({"reduction": "plain"})

    def textbook_config(self, problem: Problem) -> Config:
        """vrmpy on interleaved neighbours, prepared once, and a 2 x 2 tile in registers."""
        wanted: dict[str, KnobValue] = {
            "tile_x": 2,
            "tile_y": 2,
            "reduction": "vrmpy",
            "align_quads": "on",
            **tiling.TEXTBOOK_PREFETCH,
        }
        blocks, rest = divmod(problem.workload.params["channels"], problem.target.lanes(1))
        if rest or blocks > 4:  # where all at once goes wrong, see the constraints
            wanted["quads_at"] = "strip"
        return self.space(problem).nearest_config(wanted)


@cache
def _knobs(*, streams: bool) -> tuple[Knob, ...]:
    """All knobs. They are the same for every shape, which their conditions name by constants."""
    return (
        Knob("order", ("channels_outer", "channels_inner"), "loops over blocks of channels"),
        Knob("tile_x", (2, 4, 8), "pixels of a row in a tile"),
        Knob("tile_y", (1, 2, 4), "rows of a tile"),
        Knob("reduction", ("plain", "vrmpy"), "multiply-accumulate by lane, or by four bytes"),
        Knob("walk", ("taps_first", "pixels_first", "channels_first"), "order inside a tile"),
        Knob("quads_at", ("root", "strip", "tile"), "neighbours interleaved: at once, per ..."),
        Knob("slide_quads", ("off", "on"), "strips reuse quads", when="quads_at == 'strip'"),
        Knob("quads_unroll", (1, 2, 4), "pairs of pixels interleaved in one iteration"),
        Knob("align_quads", ("off", "on"), "storage of quads aligned to vectors"),
        tiling.tail_knob("tail_c", "byte_lanes", "channels_multiple"),
        tiling.tail_knob("tail_x", "tile_x", "width_multiple"),
        tiling.tail_knob("tail_y", "tile_y", "height_multiple"),
        *tiling.prefetch_knobs(streams=streams),
    )


_CONSTRAINTS = (
    Constraint(
        "tile_x * tile_y <= 8",
        "a tile of four sum vectors per pixel beyond the 32 vector registers only spills",
    ),
    Constraint(
        "reduction == 'vrmpy' or tile_x * tile_y <= 2",
        "a plain product needs three registers for each of the tile's, and long code",
    ),
    Constraint(
        "reduction == 'vrmpy' or tail_c == 'guard_with_if'",
        "a plain product would read corrections off vector boundaries: Halide 21 makes wrong code",
    ),
    Constraint(
        "quads_at != 'root' or tile_y == 1"
        " or channels % byte_lanes == 0 and channels // byte_lanes <= 4",
        "rows of many or of parts of vectors, read together: Halide 21 makes wrong code of some",
    ),
    tiling.tail_constraint("tail_c", "byte_lanes", "channels"),
    tiling.tail_constraint("tail_x", "tile_x", "width"),
    tiling.tail_constraint("tail_y", "tile_y", "height"),
)


def _lay_out(stage: Stage, config: Config, third: str) -> Stage:
    """Quads interleaved for vrmpy, or lane by lane for a plain product."""
    if config.text("reduction") == "vrmpy":
        return stage.reorder_storage("lane", "c", third, "y").reorder("lane", "c", third, "y")
    return stage.reorder_storage("c", "lane", third, "y").reorder("lane", "c", third, "y")


def _schedule_sums(steps: Steps, config: Config, problem: Problem, tile: str) -> None:
    vrmpy = config.text("reduction") == "vrmpy"
    lanes = problem.target.lanes(4) if vrmpy else problem.target.lanes(1)
    blocks = problem.target.lanes(1) // lanes
    pure, update = steps.stage("sums").compute_at("output", tile), steps.stage("sums", 0)
    for stage in (pure, update):
        stage.split("c", "cv", "ci", lanes, _ROUND_UP).split("cv", "co", "cv", blocks, _ROUND_UP)
        stage.split("x", "xo", "xi", config.integer("tile_x"), _ROUND_UP)
        stage.split("y", "yo", "yi", config.integer("tile_y"), _ROUND_UP)
    pure.reorder("ci", "cv", "xi", "yi", "co", "xo", "yo")
    inside = {
        "taps_first": ("r$y", "xi", "yi", "cv"),
        "pixels_first": ("xi", "yi", "r$y", "cv"),
        "channels_first": ("cv", "xi", "yi", "r$y"),
    }[config.text("walk")]
    first = ("r$x", "ci") if vrmpy else ("ci", "r$x")
    update.reorder(*first, *inside, "co", "xo", "yo")
    for stage in (pure, update):
        stage.vectorize("ci").unroll("cv").unroll("xi").unroll("yi")
    update.unroll("r$y")
    if vrmpy:
        update.atomic().vectorize("r$x")
    else:
        update.unroll("r$x")


def _schedule_quads(steps: Steps, config: Config, lanes: int, tile: str) -> None:
    quads = steps.stage("quads")
    where = config.text("quads_at")
    if where == "root":
        # Channel 0 on a vector boundary, wherever the last block of channels is moved to.
        quads.compute_root().align_bounds("c", lanes)
    elif where == "strip":
        quads.compute_at("output", "yo")
        if config.is_on("slide_quads"):
            quads.store_root()
    else:
        quads.compute_at("output", tile)
    _lay_out(quads, config, "x").vectorize("c", lanes, _ROUND_UP).unroll("lane")
    quads.unroll("x", config.integer("quads_unroll"), _ROUND_UP)
    if config.is_on("align_quads"):
        quads.align_storage("c", lanes)


def _prefetch(steps: Steps, config: Config) -> None:
    """Has the outermost loop along rows that reads the input fetch the rows of later iterations."""
    distance = tiling.prefetch_distance(config)
    if not distance:
        return
    if config.text("quads_at") == "root":
        steps.stage("quads").prefetch("input", "y", distance)
    else:
        steps.stage("output").prefetch("input", "yo", distance)
