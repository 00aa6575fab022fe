"""The scale of a requantization in fixed point, as in :mod:`tuner.kernels.channel_scale`.

The network defines a requantization in float32: ``rint(float32(sum) * scale) + zero_point``, halves
to even. HVX code multiplies the sum by an integer of 31 bits and rounds once, halves up. Within the
range of the output both differ by less than ``2**-22 / scale`` before they round: by one step at
most for scales of :data:`LEAST` and more, and only where a result is nearly a half.
"""

from __future__ import annotations

import numpy as np

from tuner.kernels import channel_scale
from tuner.network.graph import Array

LEAST = 2.0**-20
"""The smallest scale that multipliers hold with as many bits as a result needs."""


def multipliers(scales: Array) -> Array | None:
    """The nearest multipliers (i32) to ``scales`` (float32), one for each channel; ``None`` if one
    of them is beyond :data:`LEAST` and 1."""
    exact = scales.astype(np.float64)
    if not np.all((exact >= LEAST) & (exact < 1)):
        return None
    made: Array = np.rint(exact * 2.0**channel_scale.SCALE_BITS).astype(np.int32)
    return made


def steps_apart(sums: Array, scale: float, zero_point: int) -> int | None:
    """The most steps between both forms for any of ``sums`` (i32), as u8; ``None`` if there is no
    fixed-point form of ``scale``."""
    found = multipliers(np.array([scale], np.float32))
    if found is None:
        return None
    exact = np.rint(sums.astype(np.float32) * np.float32(scale)) + zero_point
    numbers = np.array([0, zero_point, 0, 255], np.uint8)
    made = channel_scale.reference(sums, found[0], numbers).astype(np.int64)
    return int(np.abs(made - np.clip(exact, 0, 255)).max(initial=0))
