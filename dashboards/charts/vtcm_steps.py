"""VTCM over the steps of a plan: bytes placed at each, against the capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tuner.records.batch import NetworkLayer
from tuner.records.network_plan import NetworkPlan, VtcmOfCall

LEFT, RIGHT, TOP, BOTTOM = 92.0, 12.0, 14.0, 30.0
HEIGHT = 190.0
_LEAST_WIDTH = 620.0
_STEP = 16.0
_MOST_STEP = 60.0


@dataclass(frozen=True)
class Step:
    """A step as a column in pixels."""

    x: float
    y: float
    width: float
    height: float
    used_bytes: int
    layer: str


@dataclass(frozen=True)
class VtcmChart:
    """The chart of one unit, in pixels: ``calls`` are the x where one begins. ``capacity_y`` is the
    line that no column may pass."""

    unit: str
    capacity_bytes: int
    peak_bytes: int
    tensors: int
    width: float
    columns: tuple[Step, ...]
    calls: tuple[float, ...]
    capacity_y: float = TOP
    left: float = LEFT
    bottom: float = HEIGHT - BOTTOM
    height: float = HEIGHT


def vtcm_charts(plan: NetworkPlan, layers: Sequence[NetworkLayer]) -> list[VtcmChart]:
    """A chart for each unit whose VTCM holds a tensor."""
    units = dict.fromkeys(one.unit for one in plan.vtcm if one.tensors)
    return [_chart([one for one in plan.vtcm if one.unit == unit], layers) for unit in units]


def _chart(calls: Sequence[VtcmOfCall], layers: Sequence[NetworkLayer]) -> VtcmChart:
    used = [
        (step, size)
        for call in calls
        for step, size in zip(call.steps, call.used_bytes, strict=True)
    ]
    width = min(_MOST_STEP, max(_STEP, (_LEAST_WIDTH - LEFT - RIGHT) / len(used)))
    capacity = calls[0].capacity_bytes
    tall = HEIGHT - TOP - BOTTOM
    columns = []
    for n, (step, size) in enumerate(used):
        height = tall * size / capacity if capacity else 0.0
        x = LEFT + n * width
        y = HEIGHT - BOTTOM - height
        columns.append(
            Step(
                round(x, 1), round(y, 1), round(width, 1), round(height, 1), size, layers[step].name
            )
        )
    begins = accumulate((len(call.steps) for call in calls[:-1]), initial=0)
    return VtcmChart(
        calls[0].unit,
        capacity,
        max(size for _, size in used),
        sum(len(call.tensors) for call in calls),
        LEFT + RIGHT + len(used) * width,
        tuple(columns),
        tuple(round(LEFT + n * width, 1) for n in begins),
    )
