"""3x3 box blur of u8 images."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.kernels.kernel import HalidePipeline, WorkCounts
from tuner.kernels.row_stencil import EDGES, RowStencil, repeat_edges

_NINTH = 3641
"""1/9 in 2**-15, rounded up. For sums up to 9 * 255 the error stays below 1/100, and no multiple
of 1/9 is nearer than 1/18 to a half: the rounded product is exact."""


class BoxBlurU8(RowStencil):
    """output = (sum of the 3x3 pixels around) / 9, to the nearest integer.

    Pixels beyond an edge are those of the edge. Rows are summed first, then columns.
    """

    name = "box_blur_u8"
    summary = "3x3 box blur in two stages, edges repeated"
    text = (
        EDGES
        + """
    for y, x in ...:
        rows[y, x] = edged[y, x - 1] + edged[y, x] + edged[y, x + 1]
    for y, x in range(height), range(width):
        output[y, x] = u8((rows[y - 1, x] + rows[y, x] + rows[y + 1, x] + 4) // 9)
    return output
"""
    )

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Per pixel on 16 bits: the sum along the row (one vtmpy), two adds down the column, a
        # product; and the narrowing, a byte.
        pixels = params["width"] * params["height"]
        return self.counts(params, lane_ops=9 * pixels)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        pixels = hl.ImageParam(hl.UInt(8), 2, "input")
        padded = repeat_edges(pixels, 1)
        left, middle, right = (hl.i16(padded[x + d, y]) for d in (-1, 0, 1))
        rows = hl.Func("rows")
        rows[x, y] = left + middle + right
        total = rows[x, y - 1] + rows[x, y] + rows[x, y + 1]
        combined = hl.Func("combined")
        ninth = hl.rounding_mul_shift_right(total, hl.i16(_NINTH), hl.u16(15))
        combined[x, y] = hl.u8(ninth)
        output = hl.Func("output")
        output[x, y] = combined[x, y]
        stages = {"padded": padded, "rows": rows, "combined": combined, "output": output}
        return HalidePipeline((pixels,), output, stages)
