"""5x5 Gaussian blur of u8 images with binomial weights."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.kernels.kernel import HalidePipeline, WorkCounts
from tuner.kernels.row_stencil import EDGES, RowStencil, repeat_edges

_WEIGHTS = (1, 4, 6, 4, 1)
_RADIUS = 2


class Gaussian5x5U8(RowStencil):
    """output = (sum of w[i] w[j] input[y+i-2, x+j-2] + 128) >> 8 with w = 1 4 6 4 1.

    Pixels beyond an edge are those of the edge. All sums are exact; halves round up.
    """

    name = "gaussian5x5_u8"
    summary = "5x5 Gaussian blur, edges repeated"
    text = (
        EDGES
        + """
    for y, x in ...:
        rows[y, x] = (edged[y, x - 2] + edged[y, x + 2] + 4 * (edged[y, x - 1] + edged[y, x + 1])
                      + 6 * edged[y, x])
    for y, x in range(height), range(width):
        total = (rows[y - 2, x] + rows[y + 2, x] + 4 * (rows[y - 1, x] + rows[y + 1, x])
                 + 6 * rows[y, x])
        output[y, x] = u8(u16(total) + 128 >> 8)
    return output
"""
    )

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Along the row three multiply-accumulates (1 needs none), down the column on 16 bits two
        # multiplies or shifts and two adds.
        pixels = params["width"] * params["height"]
        return self.counts(params, macs=3 * pixels, lane_ops=4 * 2 * pixels)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        pixels = hl.ImageParam(hl.UInt(8), 2, "input")
        padded = repeat_edges(pixels, _RADIUS)

        def binomial(at: list[hl.Expr]) -> hl.Expr:
            return at[0] + at[4] + hl.i16(4) * (at[1] + at[3]) + hl.i16(6) * at[2]

        # 8 in each row becomes 16 * 8 = 128 in the sum: the rounding costs nothing down there.
        rows = hl.Func("rows")
        rows[x, y] = binomial([hl.i16(padded[x + d, y]) for d in range(-2, 3)]) + hl.i16(8)
        # Up to 65408: right as 16 bits without a sign, and HVX multiplies i16 by small constants.
        total = binomial([rows[x, y + d] for d in range(-2, 3)])
        combined = hl.Func("combined")
        combined[x, y] = hl.u8(hl.u16(total) >> 8)
        output = hl.Func("output")
        output[x, y] = combined[x, y]
        stages = {"padded": padded, "rows": rows, "combined": combined, "output": output}
        return HalidePipeline((pixels,), output, stages)
