"""The product of matrices in NumPy."""

import numpy as np
from numpy.typing import NDArray


def reference(
    a: NDArray[np.uint8], b: NDArray[np.uint8], m: int, n: int, k: int
) -> NDArray[np.int32]:
    """The sums; ``b`` has four rows of the matrix side by side, column by column."""
    rows = b.reshape(k // 4, n, 4).transpose(0, 2, 1).reshape(k, n)
    sums: NDArray[np.float64] = a.astype(np.float64) @ rows.astype(np.float64)  # exact below 2**53
    return sums.astype(np.int64).astype(np.int32)
