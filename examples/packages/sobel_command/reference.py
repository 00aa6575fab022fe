"""Sobel's gradient in NumPy."""

import numpy as np
from numpy.typing import NDArray


def reference(src: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """``dst``."""
    p = src.astype(np.int32)
    columns, rows = p[:-2] + 2 * p[1:-1] + p[2:], p[:, :-2] + 2 * p[:, 1:-1] + p[:, 2:]
    gradient: NDArray[np.int32] = np.abs(columns[:, 2:] - columns[:, :-2]) + np.abs(
        rows[2:] - rows[:-2]
    )
    return np.minimum(gradient, 255).astype(np.uint8)
