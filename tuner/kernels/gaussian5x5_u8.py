"""5x5 Gaussian blur of u8 images with binomial weights."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import Param, WorkCounts


class Gaussian5x5U8(DerivedKernel):
    """output = (sum of w[i] w[j] input[y+i-2, x+j-2] + 128) >> 8 with w = 1 4 6 4 1.

    Pixels beyond an edge are those of the edge. All sums are exact; halves round up.
    """

    name = "gaussian5x5_u8"
    summary = "5x5 Gaussian blur, edges repeated"
    text = """
def gaussian5x5_u8(height: size, width: size, input: u8[height, width]):
    for y, x in ...:
        edged[y, x] = input[max(min(y, height - 1), 0), max(min(x, width - 1), 0)]
    for y, x in ...:
        rows[y, x] = (i16(edged[y, x - 2]) + i16(edged[y, x + 2]) + 6 * i16(edged[y, x])
                      + 4 * (i16(edged[y, x - 1]) + i16(edged[y, x + 1])))
    for y, x in range(height), range(width):
        total = (rows[y - 2, x] + rows[y + 2, x] + 4 * (rows[y - 1, x] + rows[y + 1, x])
                 + 6 * rows[y, x])
        output[y, x] = u8(u16(total) + 128 >> 8)
    return output
"""
    params = (Param("width", 512, "pixels of a row"), Param("height", 64, "rows"))

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Along the row three multiply-accumulates (1 needs none), down the column on 16 bits two
        # multiplies or shifts and two adds.
        pixels = params["width"] * params["height"]
        return self.counts(params, macs=3 * pixels, lane_ops=4 * 2 * pixels)
