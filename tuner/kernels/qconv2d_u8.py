"""Convolution as a layer of a quantized network: ``conv2d_u8`` with all numbers as data.

Zero points, multipliers by channel and limits are arguments: one schedule serves all layers of a
shape. The space is that of :mod:`tuner.kernels.conv2d_u8`, of whose parts this makes use.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tuner.kernels import channel_scale
from tuner.kernels.conv2d_u8 import Conv2dU8, convolution, copies_tables, sums_text
from tuner.kernels.kernel import Array, HalidePipeline, Param, Problem
from tuner.space import Config, Directive
from tuner.space.directives import Steps


class QConv2dU8(Conv2dU8):
    """Requantized sums of input * weights over size x size pixels and all input channels.

    Windows are ``stride`` apart; the first begins ``before`` pixels above and left of the image,
    and the last ends ``after`` pixels beyond it at most. Beyond the image, input is the zero point.
    The bias has taken up the zero point (-zero_in * sum of the channel's weights); sums are exact
    in i32 (modulo 2**32), and ``channel_scale.py`` says how they become u8. Weights are packed as
    those of ``conv2d_u8``. A product of matrices is a convolution of one row of pixels.
    """

    name = "qconv2d_u8"
    summary = "convolution layer, u8 NHWC x i8 -> u8, scaled by channel, all numbers as data"
    text = f"""
def qconv2d_u8(height: size, width: size, channels_in: size, channels_out: size,
        input: u8[height, width, channels_in],
        weights: i8[size, size, channels_in // 4, 4 * channels_out], bias: i32[channels_out],
        multiplier: i32[channels_out], numbers: u8[4]):
{sums_text("numbers[0]", "before")}
    for y, x, c in range(max(height + before + after - size, 0) // stride + 1), \
            range(max(width + before + after - size, 0) // stride + 1), range(channels_out):
        output[y, x, c] = {channel_scale.text("sums[y, x, c]", "c")}
    return output
"""
    unpromised = channel_scale.BUFFERS
    params = (
        *(param for param in Conv2dU8.params if param.is_extent),
        *(param for param in Conv2dU8.params if param.name in ("size", "stride")),
        Param("before", 0, "pixels above and left of the image", 0, 6, is_extent=False),
        Param("after", 0, "pixels below and right of the image", 0, 6, is_extent=False),
    )

    def inputs(self, params: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
        """Random; scales for outputs that seldom saturate."""
        image, weights, *_ = self.buffers(params)
        taps = params["size"] ** 2 * params["channels_in"]
        return [
            rng.integers(0, 256, image.shape, np.uint8),
            rng.integers(-128, 128, weights.shape, np.int8),
            *channel_scale.inputs(params["channels_out"], 1 << 14 + taps.bit_length() // 2, rng),
        ]

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        multiplier, numbers = settings = channel_scale.settings()
        before, multipliers = params["before"], channel_scale.multipliers(multiplier)
        return convolution(
            params,
            *(numbers[0], before, params["size"] == 1 and not before and not params["after"]),
            lambda sums, c: channel_scale.expression(sums, multipliers[c], numbers),
            settings,
            {"multipliers": multipliers},
        )

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        steps = Steps()
        if copies_tables(problem, problem.workload.params["channels_out"]):
            channel_scale.copy(steps.stage("multipliers"), problem)
        return [*super().schedule(problem, config), *steps.directives]
