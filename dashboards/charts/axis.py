"""Logarithmic axes of charts that are drawn on the server."""

from __future__ import annotations

import math


class LogAxis:
    """A logarithmic axis from ``low`` to ``high`` (both above 0, and different) over pixels."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low, self.high = low, high
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        """Where ``value`` lies."""
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self._begin + part * (self._end - self._begin)

    def powers_of_two(self) -> tuple[tuple[float, str], ...]:
        """Ticks at those that fit, at most eight."""
        first, last = math.ceil(math.log2(self.low)), math.floor(math.log2(self.high))
        step = max(1, math.ceil((last - first + 1) / 8))
        return tuple(
            (round(self(2.0**power), 1), f"{2.0**power:g}")
            for power in range(first, last + 1, step)
        )

    def evenly(self, ticks: int) -> tuple[tuple[float, str], ...]:
        """So many ticks at about even distances, at numbers that can be read: for any range,
        however narrow."""
        ratio = self.high / self.low
        digits = max(2, math.ceil(2 - math.log10(ratio - 1)))
        exact = (self.low * ratio ** ((i + 0.5) / ticks) for i in range(ticks))
        values = (round(float(f"{value:.{digits}g}")) for value in exact)
        return tuple((round(self(value), 1), f"{value:,}") for value in dict.fromkeys(values))
