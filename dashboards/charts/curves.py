"""The best so far of two jobs over their trials, on one logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboards.charts.log_plots import LogAxis

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 78, 12, 12, 40
_MARGIN = 1.03
"""The factor by which the axis of cycles exceeds the data."""


@dataclass(frozen=True)
class Curves:
    """A path for each side that has a measured trial, with the ticks of both axes."""

    paths: Mapping[str, str]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]


def curves(courses: Mapping[str, Mapping[str, Any]]) -> Curves | None:
    """The curves of ``courses`` (:func:`dashboards.charts.course.course`) by side; ``None``
    without a measured trial on any."""
    drawn = {side: one for side, one in courses.items() if one["trial"]}
    if not drawn:
        return None
    last = max(1, *(max(one["trial"][-1], *one["failed"]["trial"], 0) for one in drawn.values()))
    every = [cycles for one in drawn.values() for cycles in one["best"]]
    across = (WIDTH - RIGHT - LEFT) / last
    up = LogAxis(min(every) / _MARGIN, max(every) * _MARGIN, HEIGHT - BOTTOM, TOP)

    def path(one: Mapping[str, Any]) -> str:
        places = [f"M{LEFT + across * one['trial'][0]:.1f} {up(one['best'][0]):.1f}"]
        for trial, best in zip(one["trial"][1:], one["best"][1:], strict=True):
            places.append(f"H{LEFT + across * trial:.1f}V{up(best):.1f}")
        return "".join([*places, f"H{LEFT + across * last:.1f}"])

    step = max(1, round(last / 5))
    return Curves(
        paths={side: path(one) for side, one in drawn.items()},
        x_ticks=[(round(LEFT + across * at, 1), f"{at:,}") for at in range(0, last + 1, step)],
        y_ticks=up.evenly(4),
    )
