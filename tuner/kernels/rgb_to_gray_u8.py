"""Luma of RGB images with interleaved u8 channels."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import Param, WorkCounts

_CHANNELS = 3


class RgbToGrayU8(DerivedKernel):
    """output = (77 R + 150 G + 29 B + 128) >> 8, exact; halves round up.

    The weights are 0.299, 0.587 and 0.114 (ITU-R BT.601) in 256ths. A row of the input holds red,
    green and blue of pixel 0, then those of pixel 1, ...
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
    params = (Param("width", 512, "pixels of a row"), Param("height", 64, "rows"))

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Beside the products: the channels drawn apart, and 16-bit sums rounded and narrowed.
        pixels = params["width"] * params["height"]
        return self.counts(params, macs=_CHANNELS * pixels, lane_ops=(_CHANNELS + 2) * pixels)
