"""The difference of frames in NumPy."""

import numpy as np
from numpy.typing import NDArray


def reference(
    before: NDArray[np.uint8], after: NDArray[np.uint8], threshold: int, width: int, height: int
) -> NDArray[np.uint8]:
    """``moved``."""
    difference = np.abs(before.astype(np.int32) - after) - threshold
    return np.maximum(difference, 0).astype(np.uint8)
