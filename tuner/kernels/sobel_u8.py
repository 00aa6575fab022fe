"""Sobel edge strength of u8 images."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import Param, WorkCounts


class SobelU8(DerivedKernel):
    """output = min(|gx| + |gy|, 255), where gx and gy are the 3x3 Sobel sums.

    gx weighs the columns -1 0 1 and the rows 1 2 1, gy the other way round. Pixels beyond an edge
    are those of the edge. Everything before the final minimum is exact.
    """

    name = "sobel_u8"
    summary = "Sobel edge strength |gx| + |gy|, edges repeated"
    text = """
def sobel_u8(height: size, width: size, input: u8[height, width]):
    for y, x in ...:
        edged[y, x] = input[max(min(y, height - 1), 0), max(min(x, width - 1), 0)]
    for y, x in ...:
        smooth[y, x] = i16(edged[y, x - 1]) + 2 * i16(edged[y, x]) + i16(edged[y, x + 1])
    for y, x in ...:
        slope[y, x] = i16(edged[y, x + 1]) - i16(edged[y, x - 1])
    for y, x in range(height), range(width):
        gx = slope[y - 1, x] + 2 * slope[y, x] + slope[y + 1, x]
        output[y, x] = u8_sat(abs(gx) + absd(smooth[y - 1, x], smooth[y + 1, x]))
    return output
"""
    params = (Param("width", 512, "pixels of a row"), Param("height", 64, "rows"))

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Per pixel on 16 bits: smooth along the row (one vtmpy) and down the column (a widening add
        # and one vmpa), a difference and its absolute value at once for each, their sum; and the
        # narrowing, a byte.
        pixels = params["width"] * params["height"]
        return self.counts(params, lane_ops=13 * pixels)
