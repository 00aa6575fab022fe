"""Sobel edge strength of u8 images."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.kernels.kernel import HalidePipeline, WorkCounts
from tuner.kernels.row_stencil import EDGES, RowStencil, repeat_edges


class SobelU8(RowStencil):
    """output = min(|gx| + |gy|, 255), where gx and gy are the 3x3 Sobel sums.

    gx weighs the columns -1 0 1 and the rows 1 2 1, gy the other way round. Pixels beyond an edge
    are those of the edge. Everything before the final minimum is exact.
    """

    name = "sobel_u8"
    summary = "Sobel edge strength |gx| + |gy|, edges repeated"
    text = (
        EDGES
        + """
    for y, x in ...:
        smooth[y, x] = edged[y, x - 1] + 2 * edged[y, x] + edged[y, x + 1]
    for y, x in ...:
        slope[y, x] = edged[y, x + 1] - edged[y, x - 1]
    for y, x in range(height), range(width):
        gx = slope[y - 1, x] + 2 * slope[y, x] + slope[y + 1, x]
        output[y, x] = u8_sat(abs(gx) + absd(smooth[y - 1, x], smooth[y + 1, x]))
    return output
"""
    )

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Per pixel on 16 bits: smooth along the row (one vtmpy) and down the column (a widening add
        # and one vmpa), a difference and its absolute value at once for each, their sum; and the
        # narrowing, a byte.
        pixels = params["width"] * params["height"]
        return self.counts(params, lane_ops=13 * pixels)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        pixels = hl.ImageParam(hl.UInt(8), 2, "input")
        padded = repeat_edges(pixels, 1)
        left, middle, right = (hl.i16(padded[x + d, y]) for d in (-1, 0, 1))
        rows = hl.Func("rows")
        rows[x, y] = (left + hl.i16(2) * middle + right, right - left)
        above, here, below = ([rows[x, y + d][i] for i in (0, 1)] for d in (-1, 0, 1))
        gy = hl.absd(above[0], below[0])
        gx = hl.abs(above[1] + hl.i16(2) * here[1] + below[1])
        combined = hl.Func("combined")
        combined[x, y] = hl.u8_sat(gx + gy)
        output = hl.Func("output")
        output[x, y] = combined[x, y]
        stages = {"padded": padded, "rows": rows, "combined": combined, "output": output}
        return HalidePipeline((pixels,), output, stages)
