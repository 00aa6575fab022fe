"""The kernel of ``scale_u8`` with an input that may be loose, as those of uploads may.

Set the environment variable ``HVXTUNE_KERNELS`` to :data:`KERNELS` to use it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.rig.scale_u8 import ScaleU8
from tuner.kernels.kernel import BufferSpec, Param

KERNELS = "loose_u8=tests.rig.loose_u8:LooseU8"
LOOSE = Param("input_loose", 0, "whether the input is", 0, 2, is_extent=False, is_optional=True)


class LooseU8(ScaleU8):
    """As an uploaded pipeline: the promises about its input can be taken back."""

    name = "loose_u8"
    params = (*ScaleU8.params, LOOSE)

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        source, output = super().buffers(params)
        return source._replace(loose=params.get(LOOSE.name, LOOSE.default)), output
