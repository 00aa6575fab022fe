"""Plots on logarithmic axes: the roofline of a workload, and the scatter of its promotions.

A roofline shows operations per cycle over operations per byte of the work. Its roofs are those of
:mod:`tuner.measure.roofline`: the slope is the bandwidth of loads and stores, or that of L2 or DDR
if it is less; the flat part the throughput of multipliers, permutes or vector arithmetic. All
schedules of a workload do the same work on the same bytes, so their marks share one x.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.measure.roofline import roofline_of
from tuner.records.candidate import CacheState, Problem
from tuner.records.roofline import MEMORY

WIDTH, HEIGHT = 520, 300
TOP, RIGHT, BOTTOM = 14, 14, 44
_ROOFLINE_LEFT, _SCATTER_LEFT = 56, 84
_ROOFLINE_MARGIN, _SCATTER_MARGIN = 4.0, 1.04
"""The factor by which an axis exceeds its data."""
_TICKS = 4


class LogAxis:
    """A logarithmic axis from ``low`` to ``high`` (both above 0, and different) over pixels."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low, self.high = low, high
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        """The coordinate of ``value``."""
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self._begin + part * (self._end - self._begin)

    def powers_of_two(self) -> tuple[tuple[float, str], ...]:
        """Ticks at powers of two within the axis, at most eight."""
        first, last = math.ceil(math.log2(self.low)), math.floor(math.log2(self.high))
        step = max(1, math.ceil((last - first + 1) / 8))
        return tuple(
            (round(self(2.0**power), 1), f"{2.0**power:g}")
            for power in range(first, last + 1, step)
        )

    def evenly(self, ticks: int) -> tuple[tuple[float, str], ...]:
        """At most ``ticks`` ticks, about evenly spaced, rounded to as few digits as the range
        allows."""
        ratio = self.high / self.low
        digits = max(2, math.ceil(2 - math.log10(ratio - 1)))
        exact = (self.low * ratio ** ((i + 0.5) / ticks) for i in range(ticks))
        values = (round(float(f"{value:.{digits}g}")) for value in exact)
        return tuple((round(self(value), 1), f"{value:,}") for value in dict.fromkeys(values))


@dataclass(frozen=True)
class Mark:
    """A schedule on the plot."""

    name: str
    cycles: int
    ops_per_cycle: float
    share: float
    x: float
    y: float
    label_y: float


@dataclass(frozen=True)
class Plot:
    """Coordinates within :data:`WIDTH` by :data:`HEIGHT`."""

    unit: str
    roof: str
    ridge: tuple[float, float]
    roof_label: str
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    marks: tuple[Mark, ...]
    intensity: float
    bandwidth: float
    peak: float


def roofline_plot(
    problem: Problem, cycles: Mapping[str, int], cache: CacheState = "warm"
) -> Plot | None:
    """The plot with a mark for each of ``cycles``; ``None`` for work without bytes or operations.

    Raises ``UserError`` for a kernel that is not installed.
    """
    bounds = {bound.resource: bound for bound in roofline_of(problem, cache).bounds}
    computing = [bounds[one] for one in ("multiply", "slots", "permute") if one in bounds]
    moving = [bounds[one] for one in ("load", "store", *MEMORY) if one in bounds]
    if not computing or not moving:
        return None
    most = max(computing, key=lambda bound: bound.cycles)
    total_bytes = sum(bounds[one].work for one in ("load", "store") if one in bounds)
    bandwidth = total_bytes / max(bound.cycles for bound in moving)
    return _plot(most.unit, most.work, total_bytes, most.per_cycle, bandwidth, cycles)


def _plot(
    unit: str,
    operations: int,
    total_bytes: int,
    peak: float,
    bandwidth: float,
    cycles: Mapping[str, int],
) -> Plot:
    intensity = operations / total_bytes
    ridge = peak / bandwidth
    reached = [operations / each for each in cycles.values()]
    x_axis = LogAxis(
        min(intensity, ridge) / _ROOFLINE_MARGIN,
        max(intensity, ridge) * _ROOFLINE_MARGIN,
        _ROOFLINE_LEFT,
        WIDTH - RIGHT,
    )
    y_axis = LogAxis(min([*reached, peak]) / 2, max(peak, *reached) * 1.8, HEIGHT - BOTTOM, TOP)
    corner = (x_axis(ridge), y_axis(peak))
    start = max(x_axis.low, y_axis.low / bandwidth)
    path = (
        f"M{x_axis(start):.1f} {y_axis(start * bandwidth):.1f}"
        f" L{corner[0]:.1f} {corner[1]:.1f} L{WIDTH - RIGHT} {corner[1]:.1f}"
    )
    limit = min(peak, intensity * bandwidth)
    marks = [
        Mark(
            name=name,
            cycles=each,
            ops_per_cycle=operations / each,
            share=operations / each / limit,
            x=round(x_axis(intensity), 1),
            y=round(y_axis(operations / each), 1),
            label_y=0.0,
        )
        for name, each in cycles.items()
    ]
    return Plot(
        unit=unit,
        roof=path,
        ridge=(round(corner[0], 1), round(corner[1], 1)),
        roof_label=f"{peak:g} {unit} per cycle",
        x_ticks=x_axis.powers_of_two(),
        y_ticks=y_axis.powers_of_two(),
        marks=tuple(_apart(marks, corner[1])),
        intensity=intensity,
        bandwidth=bandwidth,
        peak=peak,
    )


LABEL_HEIGHT = 19.0
"""Of a line of text on narrow screens, where letters are 15 high (``charts.css``)."""


def _apart(marks: Sequence[Mark], roof_y: float) -> list[Mark]:
    """The marks with labels that cover neither each other nor the roof, from the top, and end above
    the axis."""
    ranked = sorted(marks, key=lambda mark: mark.y)
    places: list[float] = []
    for mark in ranked:
        above = places[-1] if places else roof_y - 1
        places.append(max(mark.y + 4, above + LABEL_HEIGHT))
    below = HEIGHT - BOTTOM - 5.0
    for i in reversed(range(len(places))):
        places[i] = min(places[i], below)
        below = places[i] - LABEL_HEIGHT
    return [replace(mark, label_y=round(y, 1)) for mark, y in zip(ranked, places, strict=True)]


@dataclass(frozen=True)
class Dot:
    """A trial at its cycles in the search (x) and when promoted (y, interval ``low_y`` to
    ``high_y``)."""

    trial: int
    x: float
    y: float
    low_y: float
    high_y: float


@dataclass(frozen=True)
class Scatter:
    """Coordinates within :data:`WIDTH` by :data:`HEIGHT`."""

    dots: tuple[Dot, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


def scatter(points: Sequence[tuple[int, float, float, float, float]]) -> Scatter | None:
    """The plot of ``points`` (trial, searched cycles, promoted cycles, their bounds); ``None`` for
    fewer than two."""
    if len(points) < 2:
        return None
    across = [x for _, x, *_ in points]
    up = [y for point in points for y in point[2:]]
    x_axis = LogAxis(
        min(across) / _SCATTER_MARGIN, max(across) * _SCATTER_MARGIN, _SCATTER_LEFT, WIDTH - RIGHT
    )
    y_axis = LogAxis(min(up) / _SCATTER_MARGIN, max(up) * _SCATTER_MARGIN, HEIGHT - BOTTOM, TOP)
    dots = tuple(
        Dot(trial, round(x_axis(x), 1), *(round(y_axis(value), 1) for value in (y, low, high)))
        for trial, x, y, low, high in points
    )
    return Scatter(dots, x_axis.evenly(_TICKS), y_axis.evenly(_TICKS))
