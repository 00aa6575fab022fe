"""Mean over windows of u8 NHWC images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from tuner.kernels.kernel import HalidePipeline, Param, WorkCounts
from tuner.kernels.pool import WINDOW, Pool

if TYPE_CHECKING:
    import halide as hl

_FACTOR_BITS = 15


class AvgPoolU8(Pool):
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
        total[y, x, c] = u32(0)
    for y, x, c, i, j in ..., ..., ..., range(size), range(size):
        total[y, x, c] += u32(input[stride * y + i, stride * x + j, c])
    for y, x, c in range(height), range(width), range(channels):
        output[y, x, c] = u8((total[y, x, c] + u32(size * size // 2)) // u32(size * size))
    return output
"""
    params = (
        Param("height", 16, "rows of the output"),
        Param("width", 16, "pixels of a row of the output"),
        Param("channels", 128, "channels"),
        *WINDOW,
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

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        c, x, y = hl.Var("c"), hl.Var("x"), hl.Var("y")
        source = hl.ImageParam(hl.UInt(8), 3, "input")
        size, stride = params["size"], params["stride"]
        # Whole vectors are computed even beyond the last channel; the excess is not used.
        every = (hl.Expr(), hl.Expr())
        channels = source.dim(0).extent()
        wide = hl.BoundaryConditions.repeat_edge(source, [(0, channels), every, every])
        columns = hl.Func("columns")
        columns[c, x, y] = reduce(add, [hl.u16(wide[c, x, stride * y + i]) for i in range(size)])
        total = reduce(add, [columns[c, stride * x + j, y] for j in range(size)])
        combined = hl.Func("combined")
        combined[c, x, y] = hl.u8(_mean(total, size * size))
        output = hl.Func("output")
        output[c, x, y] = combined[c, x, y]
        stages = {"columns": columns, "combined": combined, "output": output}
        return HalidePipeline((source,), output, stages)


def _mean(total: hl.Expr, pixels: int) -> hl.Expr:
    """The u16 ``total`` of ``pixels`` bytes divided by their number, halves up."""
    import halide as hl

    factor = _factor(pixels)
    if factor is not None:
        # HVX has that in one instruction; a division takes products of twice the width.
        return hl.rounding_mul_shift_right(hl.i16(total), hl.i16(factor), hl.u16(_FACTOR_BITS))
    return (total + hl.u16(pixels // 2)) / hl.u16(pixels)


@cache
def _factor(pixels: int) -> int | None:
    """The factor that turns totals into means in ``2**-15``; ``None`` if it rounds some wrongly."""
    totals = np.arange(255 * pixels + 1)
    half = 1 << (_FACTOR_BITS - 1)
    factor = round((1 << _FACTOR_BITS) / pixels)
    means = (totals * factor + half) >> _FACTOR_BITS
    exact = np.array_equal(means, (totals + pixels // 2) // pixels)
    return factor if exact and factor < 1 << _FACTOR_BITS else None
