"""The reference: it decides which outputs are right."""

import numpy as np
from numpy.typing import NDArray


def reference(src: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """Takes inputs and parameters by name; returns the output, or a tuple of outputs."""
    rows = src.astype(np.int32)
    blurred: NDArray[np.int32] = (rows[:-2] + 2 * rows[1:-1] + rows[2:] + 2) >> 2
    return blurred.astype(np.uint8)
