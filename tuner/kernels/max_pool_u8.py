"""Maximum over windows of u8 NHWC images."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import Param, WorkCounts


class MaxPoolU8(DerivedKernel):
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
        Param("size", 3, "rows and columns of a window", 1, 7, is_extent=False),
        Param("stride", 2, "pixels from window to window, both ways", 1, 7, is_extent=False),
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
