"""A scatter of what trials took where they were searched and where they were promoted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.charts.axis import LogAxis

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 84, 14, 14, 44
_BESIDE = 1.04
"""The axes show this factor beside what they must."""
_TICKS = 4


@dataclass(frozen=True)
class Dot:
    """A trial: cycles at both fidelities, and where it lies. ``low_y`` and ``high_y`` are the ends
    of the interval of its promotion."""

    trial: int
    x: float
    y: float
    low_y: float
    high_y: float


@dataclass(frozen=True)
class Scatter:
    """Coordinates for a picture of :data:`WIDTH` by :data:`HEIGHT`."""

    dots: tuple[Dot, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


def scatter(points: Sequence[tuple[int, float, float, float, float]]) -> Scatter | None:
    """The picture of ``points`` (trial, cycles below, cycles above, bounds of those); ``None``
    unless there are two."""
    if len(points) < 2:
        return None
    across = [x for _, x, *_ in points]
    up = [y for point in points for y in point[2:]]
    x_axis = LogAxis(min(across) / _BESIDE, max(across) * _BESIDE, LEFT, WIDTH - RIGHT)
    y_axis = LogAxis(min(up) / _BESIDE, max(up) * _BESIDE, HEIGHT - BOTTOM, TOP)
    dots = tuple(
        Dot(trial, round(x_axis(x), 1), *(round(y_axis(value), 1) for value in (y, low, high)))
        for trial, x, y, low, high in points
    )
    return Scatter(dots, x_axis.evenly(_TICKS), y_axis.evenly(_TICKS))
