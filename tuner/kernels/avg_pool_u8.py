"""Mean over windows of u8 NHWC images."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import Param, WorkCounts


class AvgPoolU8(DerivedKernel):
    """output[y, x, c] = the mean of input over size x size pixels, to the nearest; halves go up.

    The window of an output pixel begins at stride * (y, x): all windows lie inside the input. One
    pixel of output with the size of the input is a global pooling.
    """

    name = "avg_pool_u8"
    summary = "mean over square windows, u8 NHWC"
    text = """
def avg_pool_u8(height: size, width: size, channels: size,
        input: u8[stride * (height - 1) + size, stride * (width - 1) + size, channels]):
    for y, x, c in ...:
        total[y, x, c] = u16(0)
    for y, x, c, i, j in ..., ..., ..., range(size), range(size):
        total[y, x, c] += u16(input[stride * y + i, stride * x + j, c])
    for y, x, c in range(height), range(width), range(channels):
        output[y, x, c] = u8((total[y, x, c] + u16(size * size // 2)) // u16(size * size))
    return output
"""
    params = (
        Param("height", 16, "rows of the output"),
        Param("width", 16, "pixels of a row of the output"),
        Param("channels", 128, "channels"),
        Param("size", 3, "rows and columns of a window", 1, 7, is_extent=False),
        Param("stride", 2, "pixels from window to window, both ways", 1, 7, is_extent=False),
    )

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Bytes added down each column for every row of the output, 16 bits along the row, as sums
        # of sums or running ones; for each result a division (a product) and the narrowing.
        source, result = self.buffers(params)
        height, width, channels = result.shape
        columns = source.shape[1]
        steps = min(math.log2(params["size"]), 2)
        sums = steps * height * channels * (columns + 2 * width)
        return self.counts(params, lane_ops=int(sums) + 3 * result.payload_bytes)
