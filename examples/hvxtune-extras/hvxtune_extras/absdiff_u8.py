"""Absolute difference of two u8 images, as in motion detection and sums of absolute differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from tuner.kernels import HalidePipeline, WorkCounts
from tuner.kernels.kernel import Array
from tuner.kernels.pointwise import Pointwise
from tuner.problem.buffers import BufferSpec


class AbsdiffU8(Pointwise):
    """output = |a - b|, exact. HVX does it in one instruction (V66 HVX manual, ``vabsdiff``).

    The base class brings width and height, the space and the schedules.
    """

    name: ClassVar[str] = "absdiff_u8"
    summary: ClassVar[str] = "absolute difference of two u8 images"

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        shape = (params["height"], params["width"])
        return (
            BufferSpec("a", "uint8", shape, "input"),
            BufferSpec("b", "uint8", shape, "input"),
            BufferSpec("output", "uint8", shape, "output"),
        )

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        a, b = (elements.astype(np.int16) for elements in inputs)
        return [np.abs(a - b).astype(np.uint8)]

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        elements = params["width"] * params["height"]
        return WorkCounts(
            macs=0, lane_ops=elements, read_bytes=2 * elements, written_bytes=elements
        )

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl  # loaded in compile workers only

        x, y = hl.Var("x"), hl.Var("y")
        a = hl.ImageParam(hl.UInt(8), 2, "a")
        b = hl.ImageParam(hl.UInt(8), 2, "b")
        output = hl.Func("output")
        output[x, y] = hl.absd(a[x, y], b[x, y])
        return HalidePipeline((a, b), output, {"output": output})
