"""Convolution of u8 NHWC images with i8 weights over all channels, requantized to u8.

Output channels are the vector lanes. ``vrmpy`` sums four byte products per 32-bit lane: four
neighbouring input channels of a pixel, the same for every lane, times the four weights of each
lane, which lie together (packed when the network was compiled).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import gcd
from typing import ClassVar

import numpy as np

from tuner.buffers import BufferSpec
from tuner.candidate import Problem
from tuner.contract import Contract
from tuner.kernels import requantize
from tuner.kernels.kernel import Array, HalidePipeline, Kernel, Param, WorkCounts
from tuner.kernels.settle import settle
from tuner.kernels.tails import known_multiple, tail, tail_constraint, tail_knob
from tuner.space import Config, Constraint, Directive, Knob, KnobValue, Space, TailStrategy
from tuner.space.steps import Steps

_QUAD = 4
"""Bytes that one vrmpy lane reduces."""
_ROUND_UP = TailStrategy.ROUND_UP
_LARGEST_BIAS = 1 << 16


class Conv2dU8(Kernel):
    """Requantized sums of input * weights over size x size pixels and all input channels.

    The window of output pixel (y, x) is centred at (stride * y, stride * x), one pixel before for
    an even size; beyond the image, input is ``zero_in``. There are as many outputs as centres in
    the image. The sum starts with the bias of the channel, which has taken up the zero point
    (-zero_in * sum of its weights), and is exact in i32 (modulo 2**32); ``requantize.py`` says how
    it becomes u8. Weights are (size, size, in / 4, 4 * out): four input channels of output channel
    0, then those of 1, ... Pad the input channels to a multiple of 4 with weights of zero.
    """

    name: ClassVar[str] = "conv2d_u8"
    summary: ClassVar[str] = "convolution, u8 NHWC x i8 -> u8, packed weights, requantized"
    params: ClassVar[tuple[Param, ...]] = (
        Param("height", 8, "rows of the input"),
        Param("width", 8, "pixels of a row of the input"),
        Param("channels_in", 128, "channels of the input", _QUAD, multiple=_QUAD),
        Param("channels_out", 128, "channels of the output"),
        Param("size", 1, "rows and columns of the window", 1, 7, is_extent=False),
        Param("stride", 1, "pixels from window to window, both ways", 1, 4, is_extent=False),
        Param("zero_in", 128, "zero point of the input", 0, 255, is_extent=False),
        *requantize.params(pre_shift=6, shift=4),
    )

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        height, width, stride = params["height"], params["width"], params["stride"]
        inner, outer, size = params["channels_in"], params["channels_out"], params["size"]
        weights = (size, size, inner // _QUAD, _QUAD * outer)
        output = (-(-height // stride), -(-width // stride), outer)
        return (
            BufferSpec("input", "uint8", (height, width, inner), "input"),
            BufferSpec("weights", "int8", weights, "input"),
            BufferSpec("bias", "int32", (outer,), "input", promised=False),
            BufferSpec("output", "uint8", output, "output"),
        )

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Random; biases no larger than those of networks, or every output would saturate."""
        image, weights, bias = super().inputs(params, rng)
        shape = bias.shape
        bias = rng.integers(-_LARGEST_BIAS, _LARGEST_BIAS, shape, np.int32, endpoint=True)
        return [image, weights, bias]

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        image, weights, bias = inputs
        size, stride, inner = params["size"], params["stride"], params["channels_in"]
        before = (size - 1) // 2
        padded = np.pad(
            image, ((before, size), (before, size), (0, 0)), constant_values=params["zero_in"]
        )
        height, width, outer = self.buffers(params)[-1].shape
        unpacked = weights.reshape(size, size, inner // _QUAD, outer, _QUAD)
        matrices = unpacked.transpose(0, 1, 2, 4, 3).reshape(size, size, inner, outer)
        # Doubles hold the sums exactly (49 * 65536 * 255 * 128 < 2**53), and are fast.
        sums = np.zeros((height * width, outer))
        for i in range(size):
            for j in range(size):
                taps = padded[i:, j:][: height * stride : stride, : width * stride : stride]
                sums += taps.reshape(-1, inner).astype(np.float64) @ matrices[i, j]
        wrapped = (sums.astype(np.int64) + bias).astype(np.int32)
        return [requantize.reference(wrapped.reshape(height, width, outer), params)]

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Requantization takes 16-bit lanes of: scaling, adding the zero point, narrowing.
        specs = self.buffers(params)
        outputs = specs[-1].payload_bytes
        return WorkCounts(
            macs=outputs * params["size"] ** 2 * params["channels_in"],
            lane_ops=3 * 2 * outputs,
            read_bytes=sum(spec.payload_bytes for spec in specs[:-1]),
            written_bytes=outputs,
        )

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        c, x, y, i, j, quad = (hl.Var(name) for name in ("c", "x", "y", "i", "j", "quad"))
        image = hl.ImageParam(hl.UInt(8), 3, "input")
        weights = hl.ImageParam(hl.Int(8), 4, "weights")
        bias = hl.ImageParam(hl.Int(32), 1, "bias")
        size, stride = params["size"], params["stride"]
        before = (size - 1) // 2
        for dimension in (2, 3):
            weights.dim(dimension).set_bounds(0, size)

        # Whole vectors and tiles are computed at the edges too: what they hold is not used.
        every = (hl.Expr(), hl.Expr())
        inner, width, height = (image.dim(d).extent() for d in range(3))
        wide_image = hl.BoundaryConditions.repeat_edge(image, [(0, inner), every, every])
        padded = hl.Func("padded")
        if size == 1:
            padded[c, x, y] = image[c, hl.clamp(x, 0, width - 1), hl.clamp(y, 0, height - 1)]
        else:
            zero = hl.u8(params["zero_in"])
            within = hl.BoundaryConditions.constant_exterior(
                wide_image, zero, [every, (0, width), (0, height)]
            )
            padded[c, x, y] = within[c, x, y]
        wide_weights = hl.BoundaryConditions.repeat_edge(
            weights, [(0, weights.dim(0).extent()), every, every, every]
        )
        packed = hl.Func("packed")
        packed[c, quad, i, j] = wide_weights[c, quad, i, j]
        wide_bias = hl.BoundaryConditions.repeat_edge(bias, [(0, bias.dim(0).extent())])
        start = hl.Func("start")
        start[c] = wide_bias[c]

        r = hl.RDom([(0, _QUAD), (0, inner // _QUAD), (0, size), (0, size)], "r")
        sums = hl.Func("sums")
        sums[c, x, y] = start[c]
        pixel = padded[_QUAD * r.y + r.x, stride * x + r.z - before, stride * y + r.w - before]
        sums[c, x, y] += hl.i32(pixel) * hl.i32(packed[_QUAD * c + r.x, r.y, r.z, r.w])
        scaled = hl.Func("scaled")
        scaled[c, x, y] = requantize.expression(sums[c, x, y], params)
        output = hl.Func("output")
        output[c, x, y] = scaled[c, x, y]
        stages = (padded, packed, start, sums, scaled, output)
        names = ("padded", "packed", "start", "sums", "scaled", "output")
        return HalidePipeline((image, weights, bias), output, dict(zip(names, stages, strict=True)))

    def space(self, problem: Problem) -> Space:
        params, target = problem.workload.params, problem.target
        output = self.buffers(params)[-1]
        height, width, channels = output.shape
        constants = {
            "height": height,
            "width": width,
            "channels": channels,
            "quads": params["channels_in"] // _QUAD,
            "size": params["size"],
            "height_multiple": known_multiple(problem, height),
            "width_multiple": known_multiple(problem, width),
            "channels_multiple": known_multiple(problem, channels, output),
            "byte_lanes": target.lanes(1),
            "static": int(problem.contract is Contract.STATIC),
        }
        return Space(self.name, _knobs(), _CONSTRAINTS, constants)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        lanes = problem.target.lanes(1)
        steps = Steps()
        output = steps.stage("output").compute_root()
        output.split("c", "co", "ci", lanes, tail(config, "tail_c"))
        output.split("x", "xo", "xi", config.integer("tile_x"), tail(config, "tail_x"))
        output.split("y", "yo", "yi", config.integer("tile_y"), tail(config, "tail_y"))
        outer = ("xo", "yo", "co")
        if config.text("order") == "channels_inner":
            outer = ("co", "xo", "yo")
        output.reorder("ci", "xi", "yi", *outer).vectorize("ci").unroll("xi").unroll("yi")
        if tail(config, "tail_c") is TailStrategy.GUARD_WITH_IF:
            # Guarding every operation would take them one by one: only the copy is guarded.
            scaled = steps.stage("scaled").compute_at("output", outer[0])
            scaled.vectorize("c", lanes, _ROUND_UP).unroll("x").unroll("y")
        _schedule_sums(steps, config, problem, outer[0])
        _schedule_operands(steps, config, problem)
        return steps.directives

    def default_config(self, problem: Problem) -> Config:
        return settle(self.space(problem), {"reduction": "plain"})

    def textbook_config(self, problem: Problem) -> Config:
        """vrmpy, sixteen vectors of sums in registers, two quads of loads under way."""
        width = self.buffers(problem.workload.params)[-1].shape[1]
        wanted: dict[str, KnobValue] = {
            "reduction": "vrmpy",
            "tile_x": max(n for n in (1, 2, 4) if n <= width),
            "tile_y": 1,
            "unroll_k": 2,
        }
        return settle(self.space(problem), wanted)


@cache
def _knobs() -> tuple[Knob, ...]:
    """All knobs. They are the same for every shape, which their conditions name by constants."""
    return (
        Knob("order", ("channels_outer", "channels_inner"), "loops over blocks of channels"),
        Knob("tile_x", (1, 2, 3, 4, 6, 7, 8), "pixels of a row in a tile"),
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
            when="static == 1 and channels % byte_lanes == 0",
        ),
        tail_knob("tail_c", "byte_lanes", "channels_multiple"),
        tail_knob("tail_x", "tile_x", "width_multiple"),
        tail_knob("tail_y", "tile_y", "height_multiple"),
    )


_CONSTRAINTS = (
    Constraint(
        "tile_x * tile_y <= 8",
        "a tile of four sum vectors per pixel beyond the 32 vector registers only spills",
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
        "tile_x * tile_y * unroll_k <= 16",
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
    if config.get("copy_weights") != "off":
        steps.stage("packed").compute_root().vectorize("c", lanes, _ROUND_UP)
