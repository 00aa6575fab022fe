"""Luma of RGB images with interleaved u8 channels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tuner.kernels import tiling
from tuner.kernels.kernel import HalidePipeline, Problem, WorkCounts
from tuner.kernels.pointwise import Pointwise
from tuner.space import Config

_WEIGHTS = (77, 150, 29)
"""0.299, 0.587 and 0.114 (ITU-R BT.601) in 256ths; they add up to 256."""
_CHANNELS = 3


class RgbToGrayU8(Pointwise):
    """output = (77 R + 150 G + 29 B + 128) >> 8, exact; halves round up.

    A row of the input holds red, green and blue of pixel 0, then those of pixel 1, ...
    """

    name = "rgb_to_gray_u8"
    summary = "luma (BT.601) of interleaved RGB, u8"
    text = """
def rgb_to_gray_u8(height: size, width: size, input: u8[height, 3 * width]):
    for y, x in range(height), range(width):
        total = (77 * u16(input[y, 3 * x]) + 150 * u16(input[y, 3 * x + 1])
                 + 29 * u16(input[y, 3 * x + 2]))
        output[y, x] = u8(total + 128 >> 8)
    return output
"""
    row: ClassVar[int] = 1
    whole_vectors: ClassVar[bool] = True

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Beside the products: the channels drawn apart, and 16-bit sums rounded and narrowed.
        pixels = params["width"] * params["height"]
        return self.counts(params, macs=_CHANNELS * pixels, lane_ops=(_CHANNELS + 2) * pixels)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        rows = hl.ImageParam(hl.UInt(8), 2, "input")
        red, green, blue = (
            hl.widening_mul(rows[_CHANNELS * x + channel, y], hl.u8(weight))
            for channel, weight in enumerate(_WEIGHTS)
        )
        output = hl.Func("output")
        # At most 256 * 255 before the rounding, which does not overflow.
        output[x, y] = hl.u8(hl.rounding_shift_right(red + green + blue, hl.u16(8)))
        return HalidePipeline((rows,), output, {"output": output})

    def textbook_config(self, problem: Problem) -> Config:
        """Rows one by one, four vectors of pixels in flight: drawing channels apart waits long."""
        wanted = {"vector_lanes": 2 * problem.target.lanes(1), "unroll_x": 2}
        return self.space(problem).nearest_config({**wanted, **tiling.TEXTBOOK_PREFETCH})
