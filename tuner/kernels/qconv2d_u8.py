"""Convolution as a layer of a quantized network: ``conv2d_u8`` with all numbers as data.

Zero points, multipliers by channel and limits are arguments: one schedule serves all layers of a
shape. The space is that of :mod:`tuner.kernels.conv2d_u8`, of whose parts this makes use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tuner.kernels import byte_sums, channel_scale
from tuner.kernels.conv2d_u8 import QUAD, Conv2dU8, _flips_signs, _pixel_sums, sums_text
from tuner.kernels.kernel import Array, HalidePipeline, Param

if TYPE_CHECKING:
    import halide as hl


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
        import halide as hl

        c, x, y, i, j, quad = (hl.Var(name) for name in ("c", "x", "y", "i", "j", "quad"))
        image = hl.ImageParam(hl.UInt(8), 3, "input")
        weights = hl.ImageParam(hl.Int(8), 4, "weights")
        bias = hl.ImageParam(hl.Int(32), 1, "bias")
        multiplier = hl.ImageParam(hl.Int(32), 1, "multiplier")
        numbers = hl.ImageParam(hl.UInt(8), 1, "numbers")
        size, stride, before = params["size"], params["stride"], params["before"]
        for dimension in (2, 3):
            weights.dim(dimension).set_bounds(0, size)
        numbers.dim(0).set_bounds(0, channel_scale.NUMBERS)

        # Whole vectors and tiles are computed at the edges too; the excess is not used.
        every = (hl.Expr(), hl.Expr())
        inner, width, height = (image.dim(d).extent() for d in range(3))
        wide_image = hl.BoundaryConditions.repeat_edge(image, [(0, inner), every, every])
        edgeless = size == 1 and not before and not params["after"]
        if edgeless:
            edged = hl.Func("edged")
            edged[c, x, y] = image[c, hl.clamp(x, 0, width - 1), hl.clamp(y, 0, height - 1)]
        else:
            edged = hl.BoundaryConditions.constant_exterior(
                wide_image, numbers[0], [every, (0, width), (0, height)]
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
        total = hl.reinterpret(hl.Int(32), sums[c, x, y])
        scaled[c, x, y] = channel_scale.expression(total, repeated(multiplier)[c], numbers)
        output = hl.Func("output")
        output[c, x, y] = scaled[c, x, y]
        return HalidePipeline(
            (image, weights, bias, multiplier, numbers),
            output,
            {**stages, "scaled": scaled, "output": output},
        )


def repeated(table: hl.ImageParam) -> hl.Func:
    """``table`` with its last element along the innermost dimension repeated beyond it."""
    import halide as hl

    every = [(hl.Expr(), hl.Expr())] * (table.dimensions() - 1)
    return hl.BoundaryConditions.repeat_edge(table, [(0, table.dim(0).extent()), *every])
