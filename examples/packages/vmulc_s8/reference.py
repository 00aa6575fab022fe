"""The requantized product in NumPy, on 64 bits."""

import numpy as np
from numpy.typing import NDArray


def reference(
    a: NDArray[np.int8], b: NDArray[np.int8], params: NDArray[np.int32], batch: int
) -> NDArray[np.int8]:
    """``y``."""
    a_zero, b_zero, multiplier, shift, y_zero, least, greatest = params.astype(np.int64)
    product = (a.astype(np.int64) - a_zero) * (b[0].astype(np.int64) - b_zero)
    scaled = (product * multiplier + (1 << 30)) >> 31
    half = (1 << shift) >> 1
    y: NDArray[np.int64] = np.clip(((scaled + half) >> shift) + y_zero, least, greatest)
    return y.astype(np.int8)
