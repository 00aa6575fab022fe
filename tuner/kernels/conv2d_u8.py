"""Convolution of u8 NHWC images with i8 weights over all channels, requantized to u8.

Output channels are the vector lanes. ``vrmpy`` sums four byte products per 32-bit lane: four
neighbouring input channels of a pixel, the same for every lane, times the four weights of each
lane, which lie together (packed when the network was compiled). Unsigned weights can be multiplied
by a scalar register, two products a packet; signed ones only by a vector to which the pixel is
spread, one a packet. So mostly 128 is added to the weights, and 128 times the sum of the pixels
taken away from what the sums begin with.

A tile has ``block_c`` channels of its pixels. Sums fill vectors of 32-bit lanes with 32 channels of
one pixel; what they become fills vectors of bytes, either with 128 channels of one pixel or, where
there are fewer, with 64 channels of two or 32 of four.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import gcd
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tuner.kernels import byte_sums, requantize, tiling
from tuner.kernels.kernel import (
    Array,
    BufferSpec,
    HalidePipeline,
    Kernel,
    Param,
    Problem,
    WorkCounts,
)
from tuner.problem.contract import Contract
from tuner.space import Config, Constraint, Directive, Knob, KnobValue, Space
from tuner.space.directives import Steps, TailStrategy, tail

if TYPE_CHECKING:
    import halide as hl

QUAD = 4
"""Bytes that one vrmpy lane reduces."""
_PIECE = 8
"""Bytes that a pair of scalar registers holds."""
_MOST_PIXELS = 8
"""In a tile, with as many channels as a byte vector holds: in 32 vectors of sums."""
_ROUND_UP = TailStrategy.ROUND_UP
_LARGEST_BIAS = 1 << 16


def padded_text(zero: str) -> str:
    """The stage ``padded`` of a program: the image and, beyond it, ``zero``."""
    return f"""
    for y, x, k in ...:
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        padded[y, x, k] = select(inside, input[max(min(y, height - 1), 0),
                                               max(min(x, width - 1), 0), k], {zero})
"""


def sums_text(zero: str, before: str) -> str:
    """The stages of a program up to ``sums``, of row, pixel and output channel: beyond the image is
    ``zero``, and ``before`` pixels before it the first window begins."""
    return f"""{padded_text(zero)}
    for y, x, c in ...:
        sums[y, x, c] = bias[c]
    for y, x, c, i, j, k in ..., ..., ..., range(size), range(size), range(channels_in):
        pixel = padded[stride * y + i - {before}, stride * x + j - {before}, k]
        sums[y, x, c] += i32(pixel) * i32(weights[i, j, k // 4, 4 * c + k % 4])
"""


class Conv2dU8(Kernel):
    """Requantized sums of input * weights over size x size pixels and all input channels.

    The window of output pixel (y, x) is centred at (stride * y, stride * x), one pixel before for
    an even size; beyond the image, input is ``zero_in``. There are as many outputs as centres in
    the image. The sum starts with the bias of the channel, which has taken up the zero point
    (-zero_in * sum of its weights), and is exact in i32 (modulo 2**32); ``requantize.py`` says how
    it becomes u8. Weights are (size, size, in / 4, 4 * out): four input channels of output channel
    0, then those of 1, ... Pad the input channels to a multiple of 4 with weights of zero.
    """

    name = "conv2d_u8"
    summary = "convolution, u8 NHWC x i8 -> u8, packed weights, requantized"
    text = f"""
def conv2d_u8(height: size, width: size, channels_in: size, channels_out: size,
        input: u8[height, width, channels_in],
        weights: i8[size, size, channels_in // 4, 4 * channels_out], bias: i32[channels_out]):
{sums_text("zero_in", "(size - 1) // 2")}
    for y, x, c in range((height + stride - 1) // stride), range((width + stride - 1) // stride), \
            range(channels_out):
        output[y, x, c] = {requantize.text("sums[y, x, c]")}
    return output
"""
    unpromised: ClassVar[tuple[str, ...]] = ("bias",)
    params = (
        Param("height", 8, "rows of the input"),
        Param("width", 8, "pixels of a row of the input"),
        Param("channels_in", 128, "channels of the input", QUAD, multiple=QUAD),
        Param("channels_out", 128, "channels of the output"),
        Param("size", 1, "rows and columns of the window", 1, 7, is_extent=False),
        Param("stride", 1, "pixels from window to window, both ways", 1, 4, is_extent=False),
        Param("zero_in", 128, "zero point of the input", 0, 255, is_extent=False),
        *requantize.params(pre_shift=6, shift=4),
    )

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Random; biases no larger than those of networks, or every output would saturate."""
        image, weights, bias = super().inputs(params, rng)
        shape = bias.shape
        bias = rng.integers(-_LARGEST_BIAS, _LARGEST_BIAS, shape, np.int32, endpoint=True)
        return [image, weights, bias]

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Requantization narrows at least: to 16 bits, and to a byte.
        outputs = self.buffers(params)[-1].payload_bytes
        taps = params["size"] ** 2 * params["channels_in"]
        return self.counts(params, macs=outputs * taps, lane_ops=3 * outputs)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        size, zero = params["size"], hl.u8(params["zero_in"])
        return convolution(
            params,
            *(zero, (size - 1) // 2, size == 1),
            lambda total, channel: requantize.expression(total, params),
        )

    def space(self, problem: Problem) -> Space:
        return _space(problem, self.buffers(problem.workload.params))

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        flipped = _flips_signs(problem.workload.params)
        steps = Steps()
        _schedule_output(steps, config, problem)
        _schedule_sums(steps, config, problem)
        _schedule_operands(steps, config, problem)
        if flipped:
            byte_sums.schedule(steps, problem, "pixel_sums", "x")
        _prefetch(steps, config, problem, flipped=flipped)
        return steps.directives

    def default_config(self, problem: Problem) -> Config:
        """Vectors of channels, multiplied lane by lane."""
        wanted: dict[str, KnobValue] = {"reduction": "plain", "block_c": problem.target.lanes(1)}
        return self.space(problem).nearest_config(wanted)

    def textbook_config(self, problem: Problem) -> Config:
        buffers = self.buffers(problem.workload.params)
        return self.space(problem).nearest_config(_textbook(problem, buffers))


def convolution(
    params: Mapping[str, int],
    zero: hl.Expr,
    before: int,
    edgeless: bool,
    scaled_by: Callable[[hl.Expr, hl.Var], hl.Expr],
    settings: Sequence[hl.ImageParam] = (),
    tables: Mapping[str, hl.Func] = MappingProxyType({}),
) -> HalidePipeline:
    """The pipeline of a convolution whose first window begins ``before`` pixels before the image,
    beyond which is ``zero`` (``edgeless``: no window reaches there). ``scaled_by`` makes a u8 of a
    sum of a channel, by ``settings``, of which stages are ``tables``."""
    import halide as hl

    c, x, y, i, j, quad = (hl.Var(name) for name in ("c", "x", "y", "i", "j", "quad"))
    image = hl.ImageParam(hl.UInt(8), 3, "input")
    weights = hl.ImageParam(hl.Int(8), 4, "weights")
    bias = hl.ImageParam(hl.Int(32), 1, "bias")
    size, stride = params["size"], params["stride"]
    for dimension in (2, 3):
        weights.dim(dimension).set_bounds(0, size)

    # Whole vectors and tiles are computed at the edges too; the excess is not used.
    every = (hl.Expr(), hl.Expr())
    inner, width, height = (image.dim(d).extent() for d in range(3))
    wide_image = repeated(image)
    if edgeless:
        edged = hl.Func("edged")
        edged[c, x, y] = image[c, hl.clamp(x, 0, width - 1), hl.clamp(y, 0, height - 1)]
    else:
        edged = hl.BoundaryConditions.constant_exterior(
            wide_image, zero, [every, (0, width), (0, height)]
        )
    padded = hl.Func("padded")
    padded[c, x, y] = edged[c, x, y]
    packed = hl.Func("packed")
    flipped = _flips_signs(params)
    weight = repeated(weights)[c, quad, i, j]
    packed[c, quad, i, j] = byte_sums.flipped(weight) if flipped else weight
    start = hl.Func("start")
    start[c] = repeated(bias)[c]

    r = hl.RDom([(0, QUAD), (0, inner // QUAD), (0, size), (0, size)], "r")
    sums = hl.Func("sums")
    pixel = padded[QUAD * r.y + r.x, stride * x + r.z - before, stride * y + r.w - before]
    weight = packed[QUAD * c + r.x, r.y, r.z, r.w]
    stages = {"padded": padded, "packed": packed, "start": start, "sums": sums}
    if flipped:
        more = _pixel_sums(edged, inner, (x, y), stride if edgeless else 1)
        between = 1 if edgeless else stride
        window = sum(
            more["pixel_sums"][between * x + j - before, between * y + i - before]
            for i in range(size)
            for j in range(size)
        )
        sums[c, x, y] = hl.reinterpret(hl.UInt(32), start[c]) - byte_sums.SIGN * window
        sums[c, x, y] += hl.u32(pixel) * hl.u32(weight)
        stages |= more
    else:
        sums[c, x, y] = start[c]
        sums[c, x, y] += hl.i32(pixel) * hl.i32(weight)
    scaled = hl.Func("scaled")
    scaled[c, x, y] = scaled_by(hl.reinterpret(hl.Int(32), sums[c, x, y]), c)
    output = hl.Func("output")
    output[c, x, y] = scaled[c, x, y]
    return HalidePipeline(
        (image, weights, bias, *settings),
        output,
        {**stages, **tables, "scaled": scaled, "output": output},
    )


def repeated(table: hl.ImageParam) -> hl.Func:
    """``table`` with its last element along the innermost dimension repeated beyond it."""
    import halide as hl

    every = [(hl.Expr(), hl.Expr())] * (table.dimensions() - 1)
    return hl.BoundaryConditions.repeat_edge(table, [(0, table.dim(0).extent()), *every])


def copies_tables(problem: Problem, channels: int) -> bool:
    """Whether tables of 32 bits by output channel have to be copied, a vector at a time: of longer
    vectors of which one lane is left Halide 21 says ``Ramp of lanes <= 1``."""
    return problem.contract is Contract.STATIC and channels % problem.target.lanes(4) == 1


def _flips_signs(params: Mapping[str, int]) -> bool:
    """Whether it pays to make weights unsigned: sums of pixels are not free.

    One takes about 18 packets (and a window needs stride**2 new ones), and each quad of products
    for 32 channels then half a packet less. Cycles of MobileNetV2's layers bear that out.
    """
    size, stride = params["size"], params["stride"]
    quads = size**2 * params["channels_in"] // QUAD
    saved = quads * -(-params["channels_out"] // 32) / 2
    return saved >= 18 * (stride**2 if size > 1 else 1)


def _pixel_sums(
    image: hl.Func, channels: hl.Expr, at: tuple[hl.Var, hl.Var], step: int
) -> dict[str, hl.Func]:
    """``pixel_sums``, of all channels of every ``step``-th pixel, and the stages it needs."""
    import halide as hl

    every = (hl.Expr(), hl.Expr())
    within = hl.BoundaryConditions.constant_exterior(image, hl.u8(0), [(0, channels), every, every])
    x, y = at

    def byte(channel: hl.Expr) -> hl.Expr:
        return within[channel, step * x, step * y]

    return byte_sums.stages("pixel_sums", byte, channels, at, hl.UInt(32))


def _space(problem: Problem, buffers: Sequence[BufferSpec]) -> Space:
    """The schedules of a convolution on ``buffers``, the last of which is its result."""
    params, lanes = problem.workload.params, problem.target.lanes(1)
    output = buffers[-1]
    height, width, channels = output.shape
    constants = {
        **tiling.extents(problem, ("channels", channels, output), height=height, width=width),
        "quads": params["channels_in"] // QUAD,
        "size": params["size"],
        "static": int(problem.contract is Contract.STATIC),
    }
    knobs, constraints = _knobs(lanes), _CONSTRAINTS
    if problem.contract is not Contract.STATIC or channels % QUAD:
        # Vectors of several pixels: their distance must be known, and whole words.
        constants["block_c"] = lanes
        knobs = _wide_knobs(lanes)
    if tiling.streams(problem, buffers):
        knobs, constraints = _streaming_knobs(knobs), _STREAMING_CONSTRAINTS
    return Space(problem.workload.kernel, knobs, constraints, constants)


def _textbook(problem: Problem, buffers: Sequence[BufferSpec]) -> dict[str, KnobValue]:
    """vrmpy, sixteen vectors of sums in registers, two quads of loads under way.

    Where there are half as many channels as fill a vector or fewer, those of several pixels do.
    Where L2 does not hold all ``buffers``, it holds a copy of a block's weights.
    """
    _, width, channels = buffers[-1].shape
    lanes = problem.target.lanes(1)
    block = min((n for n in (lanes // QUAD, lanes // 2) if channels <= n), default=lanes)
    pixels = (1, 2, 4) if block == lanes else (lanes // block, 4, 8)
    copies = (
        "block" if tiling.streams(problem, buffers) else "off" if channels % block == 0 else "on"
    )
    return {
        "reduction": "vrmpy",
        "block_c": block,
        "tile_x": max((n for n in pixels if n <= width), default=pixels[0]),
        "tile_y": 1,
        "unroll_k": 2,
        "copy_weights": copies,
        **tiling.TEXTBOOK_PREFETCH,
    }


@cache
def _knobs(lanes: int) -> tuple[Knob, ...]:
    """All knobs. They are the same for every shape, which their conditions name by constants."""
    tail_c = tiling.tail_knob("tail_c", "byte_lanes", "channels_multiple")
    return (
        Knob("order", ("channels_outer", "channels_inner"), "loops over blocks of channels"),
        Knob(
            "block_c",
            (lanes // QUAD, lanes // 2, lanes),
            "output channels of a tile; fewer than a vector holds: those of several pixels",
        ),
        Knob("tile_x", (1, 2, 3, 4, 6, 7, 8, 12, 16), "pixels of a row in a tile"),
        Knob("tile_y", (1, 2, 4), "rows of a tile"),
        Knob("reduction", ("plain", "vrmpy"), "multiply-accumulate by lane, or by four bytes"),
        Knob("unroll_k", (1, 2, 4), "steps of 4 input channels in one iteration"),
        Knob("walk", ("channels_first", "pixels_first"), "order inside a tile"),
        Knob("pad_at", ("inline", "root", "strip"), "input with its edges: not copied, whole, ..."),
        # Elsewhere the innermost loop would read weights beyond the last channel.
        Knob(
            "copy_weights",
            ("off", "on"),
            "weights copied to vector boundaries first",
            when="static == 1 and (channels % byte_lanes == 0 or block_c < byte_lanes)",
        ),
        replace(tail_c, when=f"block_c == byte_lanes and {tail_c.when}"),
        tiling.tail_knob("tail_x", "tile_x", "width_multiple"),
        tiling.tail_knob("tail_y", "tile_y", "height_multiple"),
    )


@cache
def _wide_knobs(lanes: int) -> tuple[Knob, ...]:
    """Those where vectors hold channels of one pixel only."""
    return tuple(
        replace(knob, choices=tuple(n for n in knob.choices if n in range(_MOST_PIXELS + 1)))
        if knob.name == "tile_x"
        else knob
        for knob in _knobs(lanes)
        if knob.name != "block_c"
    )


_COPIED = "copy_weights == 'on' or channels % block_c == 0"

_CONSTRAINTS: tuple[Constraint, ...] = (
    Constraint(
        f"tile_x * tile_y * block_c <= {_MOST_PIXELS} * byte_lanes",
        "a tile of sums beyond the 32 vector registers only spills",
    ),
    Constraint(
        "tile_x * block_c % byte_lanes == 0",
        "pixels of a row fill a vector that their channels do not",
    ),
    Constraint(
        "reduction == 'vrmpy' or block_c == byte_lanes",
        "a plain product widens bytes: fewer than a whole byte vector makes wrong code",
    ),
    Constraint(
        _COPIED,
        "the innermost loop would ask for weights beyond the last channel",
    ),
    Constraint(
        "reduction == 'vrmpy' or tile_x * tile_y * unroll_k <= 2",
        "a plain product needs three registers for each of the tile's, and long code",
    ),
    Constraint(
        "reduction == 'vrmpy' or channels > 1",
        "a plain product for one channel: Halide 21 makes wrong code",
    ),
    Constraint(
        "reduction == 'vrmpy' or quads * size > 1",
        "plain products of one quad, without a loop around them: Halide 21 makes wrong code",
    ),
    Constraint(
        "tile_x * tile_y * unroll_k * block_c <= 16 * byte_lanes"
        " and tile_x * tile_y * unroll_k <= 32",
        "longer loop bodies take seconds to compile and are never faster",
    ),
    Constraint(
        "static == 0 or quads % unroll_k == 0",
        "a guard in the innermost loop costs more than unrolling gains",
    ),
    Constraint(
        "pad_at != 'inline' or size == 1",
        "a window over the edge would ask of every pixel whether there is one",
    ),
    tiling.tail_constraint("tail_c", "byte_lanes", "channels"),
    tiling.tail_constraint("tail_x", "tile_x", "width"),
    tiling.tail_constraint("tail_y", "tile_y", "height"),
)


@cache
def _streaming_knobs(knobs: tuple[Knob, ...]) -> tuple[Knob, ...]:
    """``knobs`` where L2 does not hold all buffers."""
    copies = Knob(
        "copy_weights",
        ("off", "on", "block"),
        "weights copied to vector boundaries first: not, whole, a block of channels at a time",
        when="static == 1",
    )
    return (
        *(copies if knob.name == copies.name else knob for knob in knobs),
        *tiling.prefetch_knobs(streams=True),
    )


_STREAMING_CONSTRAINTS = (
    *(
        replace(one, text=_COPIED.replace("== 'on'", "!= 'off'")) if one.text == _COPIED else one
        for one in _CONSTRAINTS
    ),
    Constraint(
        "copy_weights != 'block' or order == 'channels_outer'",
        "with blocks of channels inside, every tile of pixels would copy all weights again",
    ),
)


def _block(config: Config, problem: Problem) -> int:
    lanes = problem.target.lanes(1)
    return config.integer("block_c") if "block_c" in config else lanes


def _tile_loop(config: Config) -> str:
    """The loop over tiles: stages computed in it are computed for one tile."""
    return "co" if config.text("order") == "channels_inner" else "xo"


def _schedule_output(steps: Steps, config: Config, problem: Problem) -> None:
    lanes, block = problem.target.lanes(1), _block(config, problem)
    output = steps.stage("output").compute_root()
    pieces: tuple[str, ...] = ()
    if block == lanes:
        output.split("c", "co", "ci", lanes, tail(config, "tail_c"))
    else:
        # A vector's part of a pixel is copied by scalar registers, as wide as it is aligned.
        channels = problem.workload.params["channels_out"]
        piece = gcd(channels, _PIECE)
        last = TailStrategy.GUARD_WITH_IF if channels % block else _ROUND_UP
        output.split("c", "cp", "ci", piece).split("cp", "co", "cp", block // piece, last)
        pieces = ("cp",)
    outer = tiling.tile_pixels(output, config)
    output.reorder("ci", *pieces, "xi", "yi", *outer).vectorize("ci")
    for loop in (*pieces, "xi", "yi"):
        output.unroll(loop)
    if block < lanes:
        scaled = steps.stage("scaled").compute_at("output", outer[0]).bound_extent("c", block)
        scaled.split("x", "x", "xv", lanes // block, _ROUND_UP).reorder("c", "xv", "x", "y")
        scaled.vectorize("c").vectorize("xv").unroll("x").unroll("y")
    elif tail(config, "tail_c") is TailStrategy.GUARD_WITH_IF:
        # Guarding every operation would take them one by one: only the copy is guarded.
        scaled = steps.stage("scaled").compute_at("output", outer[0])
        scaled.vectorize("c", lanes, _ROUND_UP).unroll("x").unroll("y")


def _schedule_sums(steps: Steps, config: Config, problem: Problem) -> None:
    vrmpy = config.text("reduction") == "vrmpy"
    lanes = problem.target.lanes(4) if vrmpy else problem.target.lanes(1)
    block = _block(config, problem)
    blocks = block // lanes
    pure, update = steps.stage("sums"), steps.stage("sums", 0)
    pure.compute_at("output", _tile_loop(config))
    if block < problem.target.lanes(1):
        pure.bound_extent("c", block)
    for stage in (pure, update):
        stage.split("c", "cv", "ci", lanes, _ROUND_UP).split("cv", "co", "cv", blocks, _ROUND_UP)
        stage.split("x", "xo", "xi", config.integer("tile_x"), _ROUND_UP)
        stage.split("y", "yo", "yi", config.integer("tile_y"), _ROUND_UP)
    pure.reorder("ci", "cv", "xi", "yi", "co", "xo", "yo")
    update.split("r$y", "ro", "ri", config.integer("unroll_k"))
    pixels_first = config.text("walk") == "pixels_first"
    inside = ("xi", "yi", "cv") if pixels_first else ("cv", "xi", "yi")
    first = ("r$x", "ci") if vrmpy else ("ci", "r$x")
    update.reorder(*first, *inside, "ri", "ro", "r$z", "r$w", "co", "xo", "yo")
    for stage in (pure, update):
        stage.vectorize("ci").unroll("cv").unroll("xi").unroll("yi")
    update.unroll("ri")
    if vrmpy:
        update.atomic().vectorize("r$x")
    else:
        update.unroll("r$x")


def _schedule_operands(steps: Steps, config: Config, problem: Problem) -> None:
    lanes = problem.target.lanes(1)
    inner = problem.workload.params["channels_in"]
    if config.text("pad_at") != "inline":
        padded = steps.stage("padded")
        if config.text("pad_at") == "root":
            padded.compute_root()
        else:
            padded.compute_at("output", "yo")
        if problem.contract is Contract.STATIC:
            padded.vectorize("c", gcd(inner, lanes), _ROUND_UP)
        else:
            # Only where there are edges to add does the input go on beyond its channels.
            plain = problem.workload.params["size"] == 1
            padded.vectorize("c", lanes, TailStrategy.GUARD_WITH_IF if plain else _ROUND_UP)
    copies = config.get("copy_weights", "on")
    if copies != "off":
        packed = steps.stage("packed")
        if copies == "block":
            packed.compute_at("output", "co")
        else:
            packed.compute_root()
        row = QUAD * problem.workload.params["channels_out"]
        # Of rows of a quarter to half a vector Halide 21 reads a whole one, and so beyond the last.
        overread = lanes // 4 < row < lanes // 2 and row % _PIECE == 0
        packed.vectorize("c", _PIECE if overread else lanes, _ROUND_UP)
    channels = problem.workload.params["channels_out"]
    if _block(config, problem) < lanes or copies_tables(problem, channels):
        steps.stage("start").compute_root().vectorize("c", problem.target.lanes(4), _ROUND_UP)


def _prefetch(steps: Steps, config: Config, problem: Problem, *, flipped: bool) -> None:
    """Has the outermost loops that read an input fetch the data of later iterations."""
    distance = tiling.prefetch_distance(config)
    if not distance:
        return
    if flipped:
        steps.stage("pixel_sums", 0).prefetch("input", "y", distance)
    if config.text("pad_at") == "root":
        steps.stage("padded").prefetch("input", "y", distance)
    else:
        steps.stage("output").prefetch("input", "yo", distance)
    copies = config.get("copy_weights", "on")
    if copies != "off":
        whole = problem.workload.params["channels_out"]
        row_bytes = QUAD * (_block(config, problem) if copies == "block" else whole)
        rows = tiling.prefetch_rows(distance, row_bytes, problem.target)
        steps.stage("packed").prefetch("weights", "quad", rows)
    elif config.text("order") == "channels_outer":
        # All of a block at once: tiles that read it again must not fetch it again.
        steps.stage("output").prefetch("weights", "co", 0)
