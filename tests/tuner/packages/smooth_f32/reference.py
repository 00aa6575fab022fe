"""The reference."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def reference(src: Floats, gain: Floats, width: int, height: int) -> Floats:
    """Rounded to f32 after each operation."""
    total = src[:, :-2] + np.float32(2) * src[:, 1:-1] + src[:, 2:]
    return gain * total + np.float32(0.5)
