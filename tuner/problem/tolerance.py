"""How near an output of floats must come to the reference's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Tolerance:
    """Elements that are accepted besides the reference's value; the widest of the three counts.

    ``ulp`` counts the steps from one representable number to the next, of the output's own dtype;
    ``absolute`` is a distance, ``relative`` one as a share of the reference. They apply between
    finite numbers only: NaN is right where the reference is NaN, whatever its sign and payload, an
    infinity where it is the same infinity. 0 and -0 are one value.
    """

    ulp: int = 0
    absolute: float = 0.0
    relative: float = 0.0

    def accepts(self, found: NDArray[Any], right: NDArray[Any]) -> NDArray[np.bool_]:
        """For each element of ``found`` whether it is accepted. Both are ``float16`` or
        ``float32``, of one shape."""
        with np.errstate(invalid="ignore"):
            wide, exact = found.astype(np.float64), right.astype(np.float64)
            distance, size = np.abs(wide - exact), np.abs(exact)
            near = distance <= np.maximum(self.absolute, self.relative * size)
        near |= np.abs(_steps(found) - _steps(right)) <= self.ulp
        finite = np.isfinite(wide) & np.isfinite(exact)
        accepted: NDArray[np.bool_] = (
            (near & finite) | (found == right) | (np.isnan(wide) & np.isnan(exact))
        )
        return accepted

    def __str__(self) -> str:
        given = {"ulp": self.ulp, "absolute": self.absolute, "relative": self.relative}
        return " or ".join(f"{name} {value:g}" for name, value in given.items() if value)


def _steps(floats: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers that follow each other as the floats do: IEEE 754 keeps sign and magnitude."""
    bits = floats.view(f"i{floats.itemsize}").astype(np.int64)
    magnitude = bits & (1 << 8 * floats.itemsize - 1) - 1
    return np.where(bits < 0, -magnitude, magnitude)
