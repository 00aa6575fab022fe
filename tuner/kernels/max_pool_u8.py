"""Maximum over windows of u8 NHWC images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce

from tuner.kernels.kernel import HalidePipeline, Param, WorkCounts
from tuner.kernels.pool import WINDOW, Pool


class MaxPoolU8(Pool):
    """output[y, x, c] = the maximum of input over a window of size x size pixels.

    Windows are ``stride`` apart, the first one begins ``max(0, size - stride + 1) // 2`` pixels
    before the image (so that they are centred), and as many begin inside as the extent divided by
    the stride, rounded up. Pixels beyond the image do not count.
    """

    name = "max_pool_u8"
    summary = "maximum over square windows, u8 NHWC"
    text = """
def max_pool_u8(height: size, width: size, channels: size, input: u8[height, width, channels]):
    for y, x, c in range((height + stride - 1) // stride), range((width + stride - 1) // stride), \
            range(channels):
        output[y, x, c] = u8(0)
    for y, x, c, i, j in ..., ..., ..., range(size), range(size):
        row = stride * y + i - max(size - stride + 1, 0) // 2
        column = stride * x + j - max(size - stride + 1, 0) // 2
        # The pixel nearest to a missing one is in the window: counting it twice changes nothing.
        output[y, x, c] = max(output[y, x, c], input[max(min(row, height - 1), 0),
                                                     max(min(column, width - 1), 0), c])
    return output
"""
    params = (
        Param("height", 32, "rows of the input"),
        Param("width", 32, "pixels of a row of the input"),
        Param("channels", 128, "channels"),
        *WINDOW,
    )

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Down each column of the input once for every row of the output, then along the row;
        # windows that overlap share what they have in common.
        result = self.buffers(params)[-1]
        height, width, channels = result.shape
        size, stride = params["size"], params["stride"]
        steps = size - 1 if stride >= size else math.log2(size)
        comparisons = steps * height * channels * (params["width"] + width)
        return self.counts(params, lane_ops=int(comparisons) or result.payload_bytes)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        c, x, y = hl.Var("c"), hl.Var("x"), hl.Var("y")
        source = hl.ImageParam(hl.UInt(8), 3, "input")
        channels, width, height = (source.dim(i).extent() for i in range(3))
        size, stride, before = params["size"], params["stride"], _before(params)

        # Whole vectors are computed even beyond the last channel; the excess is not used.
        every = (hl.Expr(), hl.Expr())
        wide = hl.BoundaryConditions.repeat_edge(source, [(0, channels), every, every])
        # Every window holds the pixel nearest to a missing one: counting it twice changes nothing.
        rows = [hl.clamp(stride * y + i - before, 0, height - 1) for i in range(size)]
        columns = hl.Func("columns")
        column = hl.clamp(x, 0, width - 1)
        columns[c, x, y] = reduce(hl.max, [wide[c, column, row] for row in rows])
        combined = hl.Func("combined")
        found = [columns[c, stride * x + j - before, y] for j in range(size)]
        combined[c, x, y] = reduce(hl.max, found)
        output = hl.Func("output")
        output[c, x, y] = combined[c, x, y]
        stages = {"columns": columns, "combined": combined, "output": output}
        return HalidePipeline((source,), output, stages)


def _before(params: Mapping[str, int]) -> int:
    """How many pixels before the image the first window begins."""
    return max(0, params["size"] - params["stride"] + 1) // 2
