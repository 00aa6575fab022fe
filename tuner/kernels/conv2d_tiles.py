"""Knobs and schedules of ``conv2d_u8``: tiles of pixels and output channels, in registers.

A tile has ``block_c`` channels of its pixels. Sums fill vectors of 32-bit lanes with 32 channels of
one pixel; what they become fills vectors of bytes, either with 128 channels of one pixel or, where
there are not so many, with 64 channels of two or 32 of four.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import gcd

from tuner.kernels import byte_sums, prefetches
from tuner.kernels.tiling import known_multiple, tail, tail_constraint, tail_knob
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.records.candidate import Problem
from tuner.space import Config, Constraint, Directive, Knob, KnobValue, Space, TailStrategy
from tuner.space.steps import Steps

QUAD = 4
"""Bytes that one vrmpy lane reduces."""
_PIECE = 8
"""Bytes that a pair of scalar registers holds."""
_MOST_PIXELS = 8
"""In a tile, with as many channels as a byte vector holds: in 32 vectors of sums."""
_ROUND_UP = TailStrategy.ROUND_UP


def space(problem: Problem, buffers: Sequence[BufferSpec]) -> Space:
    """The schedules of a convolution on ``buffers``, of which the last is its result."""
    params, lanes = problem.workload.params, problem.target.lanes(1)
    output = buffers[-1]
    height, width, channels = output.shape
    constants = {
        "height": height,
        "width": width,
        "channels": channels,
        "quads": params["channels_in"] // QUAD,
        "size": params["size"],
        "height_multiple": known_multiple(problem, height),
        "width_multiple": known_multiple(problem, width),
        "channels_multiple": known_multiple(problem, channels, output),
        "byte_lanes": lanes,
        "static": int(problem.contract is Contract.STATIC),
    }
    knobs, constraints = _knobs(lanes), _CONSTRAINTS
    if problem.contract is not Contract.STATIC or channels % QUAD:
        # Vectors of several pixels: their distance must be known, and whole words.
        constants["block_c"] = lanes
        knobs = _wide_knobs(lanes)
    if prefetches.streams(problem, buffers):
        knobs, constraints = _streaming_knobs(knobs), _STREAMING_CONSTRAINTS
    return Space(problem.workload.kernel, knobs, constraints, constants)


def default(problem: Problem) -> dict[str, KnobValue]:
    """Vectors of channels, multiplied lane by lane."""
    return {"reduction": "plain", "block_c": problem.target.lanes(1)}


def textbook(problem: Problem, buffers: Sequence[BufferSpec]) -> dict[str, KnobValue]:
    """vrmpy, sixteen vectors of sums in registers, two quads of loads under way.

    Where there are half as many channels as fill a vector or fewer, those of several pixels do.
    Where L2 does not hold all ``buffers``, it holds a copy of a block's weights.
    """
    _, width, channels = buffers[-1].shape
    lanes = problem.target.lanes(1)
    block = min((n for n in (lanes // QUAD, lanes // 2) if channels <= n), default=lanes)
    pixels = (1, 2, 4) if block == lanes else (lanes // block, 4, 8)
    streams = prefetches.streams(problem, buffers)
    copies = "block" if streams else "off" if channels % block == 0 else "on"
    return {
        "reduction": "vrmpy",
        "block_c": block,
        "tile_x": max((n for n in pixels if n <= width), default=pixels[0]),
        "tile_y": 1,
        "unroll_k": 2,
        "copy_weights": copies,
        **(prefetches.TEXTBOOK if streams else {}),
    }


def schedule(problem: Problem, config: Config, *, flipped: bool) -> list[Directive]:
    """The directives of ``config``; ``flipped`` says that there are sums of the input's bytes."""
    steps = Steps()
    _schedule_output(steps, config, problem)
    _schedule_sums(steps, config, problem)
    _schedule_operands(steps, config, problem)
    if flipped:
        byte_sums.schedule(steps, problem, "pixel_sums", "x")
    _prefetch(steps, config, problem, flipped=flipped)
    return steps.directives


@cache
def _knobs(lanes: int) -> tuple[Knob, ...]:
    """All knobs. They are the same for every shape, which their conditions name by constants."""
    tail_c = tail_knob("tail_c", "byte_lanes", "channels_multiple")
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
        # Elsewhere the innermost loop would ask for weights beyond the last channel.
        Knob(
            "copy_weights",
            ("off", "on"),
            "weights copied to vector boundaries first",
            when="static == 1 and (channels % byte_lanes == 0 or block_c < byte_lanes)",
        ),
        replace(tail_c, when=f"block_c == byte_lanes and {tail_c.when}"),
        tail_knob("tail_x", "tile_x", "width_multiple"),
        tail_knob("tail_y", "tile_y", "height_multiple"),
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
    tail_constraint("tail_c", "byte_lanes", "channels"),
    tail_constraint("tail_x", "tile_x", "width"),
    tail_constraint("tail_y", "tile_y", "height"),
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
    return (*(copies if knob.name == copies.name else knob for knob in knobs), prefetches.KNOB)


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
    """The loop over tiles: what it computes, it computes for one tile."""
    return "co" if config.text("order") == "channels_inner" else "xo"


def _schedule_output(steps: Steps, config: Config, problem: Problem) -> None:
    lanes, block = problem.target.lanes(1), _block(config, problem)
    output = steps.stage("output").compute_root()
    pieces: tuple[str, ...] = ()
    if block == lanes:
        output.split("c", "co", "ci", lanes, tail(config, "tail_c"))
    else:
        # What a vector has of a pixel is copied by the scalar registers, as wide as it lies.
        channels = problem.workload.params["channels_out"]
        piece = gcd(channels, _PIECE)
        last = TailStrategy.GUARD_WITH_IF if channels % block else _ROUND_UP
        output.split("c", "cp", "ci", piece).split("cp", "co", "cp", block // piece, last)
        pieces = ("cp",)
    output.split("x", "xo", "xi", config.integer("tile_x"), tail(config, "tail_x"))
    output.split("y", "yo", "yi", config.integer("tile_y"), tail(config, "tail_y"))
    outer = ("xo", "yo", "co")
    if config.text("order") == "channels_inner":
        outer = ("co", "xo", "yo")
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
        packed.vectorize("c", lanes, _ROUND_UP)
    if _block(config, problem) < lanes:
        steps.stage("start").compute_root().vectorize("c", problem.target.lanes(4), _ROUND_UP)


def _prefetch(steps: Steps, config: Config, problem: Problem, *, flipped: bool) -> None:
    """Has the outermost loops that read an input ask for what later iterations read."""
    distance = prefetches.distance(config)
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
        rows = prefetches.rows(distance, row_bytes, problem.target)
        steps.stage("packed").prefetch("weights", "quad", rows)
    elif config.text("order") == "channels_outer":
        # All of a block at once: tiles read it again, and are not to ask again.
        steps.stage("output").prefetch("weights", "co", 0)
