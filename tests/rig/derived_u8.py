"""Kernels without schedules of their own, for tests: a stencil and a reduction.

Set the environment variable ``HVXTUNE_KERNELS`` to :data:`KERNELS` to use them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.kernels.derived import DerivedKernel
from tuner.kernels.kernel import BufferSpec, Param

KERNELS = "across_u8=tests.rig.derived_u8:AcrossU8,misnamed_u8=tests.rig.derived_u8:MisnamedU8"


class AcrossU8(DerivedKernel):
    """out = the mean of three neighbours in a row, edges repeated, plus ``more``."""

    name = "across_u8"
    summary = "mean of three neighbours (test kernel)"
    params = (
        # Halide keeps smaller stages where their size cannot be told.
        Param("width", 512, "pixels of a row", 16),
        Param("height", 16, "rows", 16),
        Param("more", 1, "added to each mean", 0, 255, is_extent=False),
    )

    text = """
def across_u8(height: size, width: size, image: u8[height, width]):
    for y, x in ...:
        edged[y, x] = u16(image[y, max(min(x, width - 1), 0)])
    for y, x in ...:
        total[y, x] = edged[y, x - 1] + 2 * edged[y, x] + edged[y, x + 1]
    for y, x in range(height), range(width):
        out[y, x] = u8_sat((total[y, x] >> 2) + more)
    return out
"""


class MisnamedU8(AcrossU8):
    """Its pipeline calls the output otherwise."""

    name = "misnamed_u8"

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        image, out = super().buffers(params)
        return (image, out._replace(name="output"))
