"""Depthwise convolution as a layer of a quantized network: ``depthwise_conv2d_u8`` with a bias, and
all numbers as data. See :mod:`tuner.kernels.qconv2d_u8`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tuner.kernels import channel_scale
from tuner.kernels.conv2d_u8 import padded_text, repeated
from tuner.kernels.depthwise_conv2d_u8 import _PAIR, _SIZE, DepthwiseConv2dU8
from tuner.kernels.kernel import Array, HalidePipeline, Param, Problem
from tuner.space import Config, Directive
from tuner.space.directives import Steps


class QDepthwiseConv2dU8(DepthwiseConv2dU8):
    """Requantized sums of input * weights over 3x3 pixels of a channel, and its bias.

    Windows, bias and scales are those of ``qconv2d_u8``.
    """

    name = "qdepthwise_conv2d_u8"
    version = 1
    summary = "3x3 depthwise layer, u8 NHWC x i8 -> u8, scaled by channel, all numbers as data"
    text = f"""
def qdepthwise_conv2d_u8(height: size, width: size, channels: size,
        input: u8[height, width, channels], weights: i8[3, 3, channels], bias: i32[channels],
        multiplier: i32[channels], numbers: u8[4]):
{padded_text("numbers[0]")}
    for y, x, c in ...:
        sums[y, x, c] = bias[c]
    for y, x, c, i, j in ..., ..., ..., range(3), range(3):
        pixel = padded[stride * y + i - before, stride * x + j - before, c]
        sums[y, x, c] += i32(pixel) * i32(weights[i, j, c])
    for y, x, c in range(max(height + before + after - 3, 0) // stride + 1), \\
            range(max(width + before + after - 3, 0) // stride + 1), range(channels):
        output[y, x, c] = {channel_scale.text("sums[y, x, c]", "c")}
    return output
"""
    unpromised = ("weights", *channel_scale.BUFFERS)
    params = (
        *(param for param in DepthwiseConv2dU8.params if param.is_extent),
        *(param for param in DepthwiseConv2dU8.params if param.name == "stride"),
        Param("before", 1, "pixels above and left of the image", 0, 2, is_extent=False),
        Param("after", 1, "pixels below and right of the image", 0, 2, is_extent=False),
    )

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Random; scales for outputs that seldom saturate."""
        image, weights, *_ = self.buffers(params)
        return [
            rng.integers(0, 256, image.shape, np.uint8),
            rng.integers(-128, 128, weights.shape, np.int8),
            *channel_scale.inputs(params["channels"], channel_scale.LARGEST_BIAS, rng),
        ]

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        c, x, y, lane, odd = (hl.Var(name) for name in ("c", "x", "y", "lane", "odd"))
        image = hl.ImageParam(hl.UInt(8), 3, "input")
        weights = hl.ImageParam(hl.Int(8), 3, "weights")
        bias = hl.ImageParam(hl.Int(32), 1, "bias")
        multiplier, numbers = channel_scale.settings()
        for dimension in (1, 2):
            weights.dim(dimension).set_bounds(0, _SIZE)
        width, height = (image.dim(d).extent() for d in (1, 2))
        stride, before = params["stride"], params["before"]

        # Whole vectors are computed even beyond the last channel; the excess is not used.
        every = (hl.Expr(), hl.Expr())
        padded = hl.BoundaryConditions.constant_exterior(
            repeated(image), numbers[0], [every, (0, width), (0, height)]
        )
        quads = hl.Func("quads")
        quads[lane, c, x, y] = padded[c, _PAIR * x + lane - before, y]
        packed_weights = hl.Func("packed_weights")
        tap = lane - odd
        packed_weights[lane, c, odd, y] = hl.select(
            (tap >= 0) & (tap < _SIZE),
            repeated(weights)[c, hl.clamp(tap, 0, _SIZE - 1), y],
            hl.i8(0),
        )
        corrections = hl.Func("corrections")
        corrections[c] = repeated(bias)[c]
        r = hl.RDom([(0, _PAIR * 2), (0, _SIZE)], "r")
        sums = hl.Func("sums")
        sums[c, x, y] = corrections[c]
        quad, parity = (x / _PAIR, x % _PAIR) if stride == 1 else (x, 0)
        neighbours = quads[r.x, c, quad, stride * y + r.y - before]
        sums[c, x, y] += hl.i32(neighbours) * hl.i32(packed_weights[r.x, c, parity, r.y])
        output = hl.Func("output")
        scale = repeated(multiplier)[c]
        output[c, x, y] = channel_scale.expression(sums[c, x, y], scale, numbers)
        stages = (quads, packed_weights, corrections, sums, output)
        names = ("quads", "packed_weights", "corrections", "sums", "output")
        inputs = (image, weights, bias, multiplier, numbers)
        return HalidePipeline(inputs, output, dict(zip(names, stages, strict=True)))

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        """As inherited; the sums of weights are in the bias."""
        inherited, steps = super().schedule(problem, config), Steps()
        channel_scale.copy(steps.stage("corrections"), problem)
        own = [one for one in inherited if one.func not in ("weight_sums", "corrections")]
        return [*own, *steps.directives]
