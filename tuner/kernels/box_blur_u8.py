"""3x3 box blur of u8 images."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import Param, WorkCounts


class BoxBlurU8(DerivedKernel):
    """output = (sum of the 3x3 pixels around) / 9, to the nearest integer.

    Pixels beyond an edge are those of the edge. Rows are summed first, then columns.
    """

    name = "box_blur_u8"
    summary = "3x3 box blur in two stages, edges repeated"
    text = """
def box_blur_u8(height: size, width: size, input: u8[height, width]):
    for y, x in ...:
        edged[y, x] = input[max(min(y, height - 1), 0), max(min(x, width - 1), 0)]
    for y, x in ...:
        rows[y, x] = i16(edged[y, x - 1]) + i16(edged[y, x]) + i16(edged[y, x + 1])
    for y, x in range(height), range(width):
        output[y, x] = u8((rows[y - 1, x] + rows[y, x] + rows[y + 1, x] + 4) // 9)
    return output
"""
    params = (Param("width", 512, "pixels of a row"), Param("height", 64, "rows"))

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Per pixel on 16 bits: the sum along the row (one vtmpy), two adds down the column, a
        # product; and the narrowing, a byte.
        pixels = params["width"] * params["height"]
        return self.counts(params, lane_ops=9 * pixels)
