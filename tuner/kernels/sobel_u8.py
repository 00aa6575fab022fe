"""Sobel edge strength of u8 images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tuner.kernels.kernel import Array, HalidePipeline, WorkCounts
from tuner.kernels.pixel import Pixel, absolute, at, clamped
from tuner.kernels.row_stencil import RowStencil, repeat_edges


class SobelU8(RowStencil):
    """output = min(|gx| + |gy|, 255), where gx and gy are the 3x3 Sobel sums.

    gx weighs the columns -1 0 1 and the rows 1 2 1, gy the other way round. Pixels beyond an edge
    are those of the edge. Everything before the final minimum is exact.
    """

    name = "sobel_u8"
    summary = "Sobel edge strength |gx| + |gy|, edges repeated"

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        padded = np.pad(inputs[0], 1, mode="edge").astype(np.int32)
        left, middle, right = padded[:, :-2], padded[:, 1:-1], padded[:, 2:]
        smooth = left + 2 * middle + right
        slope = right - left
        gx = slope[:-2] + 2 * slope[1:-1] + slope[2:]
        gy = smooth[2:] - smooth[:-2]
        return [np.minimum(np.abs(gx) + np.abs(gy), 255).astype(np.uint8)]

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Per pixel on 16 bits: smooth along the row (one vtmpy) and down the column (a widening add
        # and one vmpa), a difference and its absolute value at once for each, their sum; and the
        # narrowing, a byte.
        pixels = params["width"] * params["height"]
        return WorkCounts(macs=0, lane_ops=13 * pixels, read_bytes=pixels, written_bytes=pixels)

    def pixel(self, params: Mapping[str, int]) -> Pixel:
        def smooth(dy: int) -> Pixel:
            return at(-1, dy) + 2 * at(0, dy) + at(1, dy)

        def slope(dy: int) -> Pixel:
            return at(1, dy) - at(-1, dy)

        gx = slope(-1) + 2 * slope(0) + slope(1)
        return clamped(absolute(gx) + absolute(smooth(1) - smooth(-1)))

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
