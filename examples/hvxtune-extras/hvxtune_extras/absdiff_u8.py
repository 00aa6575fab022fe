"""Absolute difference of two u8 images, as in motion detection and sums of absolute differences."""

from __future__ import annotations

from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import Param


class AbsdiffU8(DerivedKernel):
    """output = |a - b|, exact. HVX does it in one instruction (V66 HVX manual, ``vabsdiff``)."""

    name = "absdiff_u8"
    summary = "absolute difference of two u8 images"
    params = (Param("width", 512, "elements of a row"), Param("height", 64, "rows"))
    text = """
def absdiff_u8(height: size, width: size, a: u8[height, width], b: u8[height, width]):
    for y, x in range(height), range(width):
        output[y, x] = absd(a[y, x], b[y, x])
    return output
"""
