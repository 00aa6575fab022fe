"""Convolution of u8 NHWC images with i8 weights over all channels, requantized to u8.

Output channels are the vector lanes. ``vrmpy`` sums four byte products per 32-bit lane: four
neighbouring input channels of a pixel, the same for every lane, times the four weights of each
lane, which lie together (packed when the network was compiled). Unsigned weights can be multiplied
by a scalar register, two products a packet; signed ones only by a vector to which the pixel is
spread, one a packet. So mostly 128 is added to the weights, and 128 times the sum of the pixels
taken away from what the sums begin with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tuner.kernels import byte_sums, conv2d_tiles, requantize
from tuner.kernels.conv2d_tiles import QUAD
from tuner.kernels.kernel import Array, HalidePipeline, Kernel, Param, WorkCounts
from tuner.kernels.settle import settle
from tuner.problem.buffers import BufferSpec
from tuner.records.candidate import Problem
from tuner.space import Config, Directive, Space

if TYPE_CHECKING:
    import halide as hl

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
        Param("channels_in", 128, "channels of the input", QUAD, multiple=QUAD),
        Param("channels_out", 128, "channels of the output"),
        Param("size", 1, "rows and columns of the window", 1, 7, is_extent=False),
        Param("stride", 1, "pixels from window to window, both ways", 1, 4, is_extent=False),
        Param("zero_in", 128, "zero point of the input", 0, 255, is_extent=False),
        *requantize.params(pre_shift=6, shift=4),
    )

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        height, width, stride = params["height"], params["width"], params["stride"]
        inner, outer, size = params["channels_in"], params["channels_out"], params["size"]
        weights = (size, size, inner // QUAD, QUAD * outer)
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
        unpacked = weights.reshape(size, size, inner // QUAD, outer, QUAD)
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
        if size == 1:
            edged = hl.Func("edged")
            edged[c, x, y] = image[c, hl.clamp(x, 0, width - 1), hl.clamp(y, 0, height - 1)]
        else:
            zero = hl.u8(params["zero_in"])
            edged = hl.BoundaryConditions.constant_exterior(
                wide_image, zero, [every, (0, width), (0, height)]
            )
        padded = hl.Func("padded")
        padded[c, x, y] = edged[c, x, y]
        wide_weights = hl.BoundaryConditions.repeat_edge(
            weights, [(0, weights.dim(0).extent()), every, every, every]
        )
        packed = hl.Func("packed")
        flipped = _flips_signs(params)
        weight = wide_weights[c, quad, i, j]
        packed[c, quad, i, j] = byte_sums.flipped(weight) if flipped else weight
        wide_bias = hl.BoundaryConditions.repeat_edge(bias, [(0, bias.dim(0).extent())])
        start = hl.Func("start")
        start[c] = wide_bias[c]

        r = hl.RDom([(0, QUAD), (0, inner // QUAD), (0, size), (0, size)], "r")
        sums = hl.Func("sums")
        pixel = padded[QUAD * r.y + r.x, stride * x + r.z - before, stride * y + r.w - before]
        weight = packed[QUAD * c + r.x, r.y, r.z, r.w]
        stages = {"padded": padded, "packed": packed, "start": start, "sums": sums}
        if flipped:
            more = _pixel_sums(edged, inner, (x, y), stride if size == 1 else 1)
            between = 1 if size == 1 else stride
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
        scaled[c, x, y] = requantize.expression(hl.reinterpret(hl.Int(32), sums[c, x, y]), params)
        output = hl.Func("output")
        output[c, x, y] = scaled[c, x, y]
        return HalidePipeline(
            (image, weights, bias), output, {**stages, "scaled": scaled, "output": output}
        )

    def space(self, problem: Problem) -> Space:
        return conv2d_tiles.space(problem, self.buffers(problem.workload.params))

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        flipped = _flips_signs(problem.workload.params)
        return conv2d_tiles.schedule(problem, config, flipped=flipped)

    def default_config(self, problem: Problem) -> Config:
        return settle(self.space(problem), conv2d_tiles.default(problem))

    def textbook_config(self, problem: Problem) -> Config:
        buffers = self.buffers(problem.workload.params)
        return settle(self.space(problem), conv2d_tiles.textbook(problem, buffers))


def _flips_signs(params: Mapping[str, int]) -> bool:
    """Whether weights are worth making unsigned: sums of pixels are not free.

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
    """``pixel_sums``, of all channels of every ``step``-th pixel, and the stages it takes."""
    import halide as hl

    every = (hl.Expr(), hl.Expr())
    within = hl.BoundaryConditions.constant_exterior(image, hl.u8(0), [(0, channels), every, every])
    x, y = at

    def byte(channel: hl.Expr) -> hl.Expr:
        return within[channel, step * x, step * y]

    return byte_sums.stages("pixel_sums", byte, channels, at, hl.UInt(32))
