"""A roofline plot: operations a cycle over operations for each byte of the work, both logarithmic.

The roofs are those of the HVX contexts that code may use (:mod:`tuner.measure.roofline`), one
unless loops may be parallel: the slope is what loads and stores let through, the flat part what
multipliers or vector arithmetic do. All schedules of a workload do the same work on the same bytes,
so they stand above each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashboards.charts.axis import LogAxis
from tuner.kernels import find_kernel
from tuner.records.candidate import Problem

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 14, 44
BESIDE = 4.0
"""The axis shows this factor beside what it must."""


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
    """Coordinates for a picture of :data:`WIDTH` by :data:`HEIGHT`."""

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


def roofline_plot(problem: Problem, cycles: Mapping[str, int]) -> Plot | None:
    """The plot with a mark for each of ``cycles``; ``None`` for work without bytes or operations.

    Raises ``UserError`` for a kernel that is not installed.
    """
    work = find_kernel(problem.workload.kernel).work(problem.workload.params)
    bounds = work.bound_cycles(problem.target)
    moving = max(bounds["load"], bounds["store"])
    unit, operations, computing = (
        ("u8 MAC", work.macs, bounds["multiply"])
        if bounds["multiply"] >= bounds["alu"]
        else ("byte ops", work.lane_ops, bounds["alu"])
    )
    total_bytes = work.read_bytes + work.written_bytes
    if not (moving and computing and operations and total_bytes):
        return None
    return _plot(
        unit, operations, total_bytes, operations / computing, total_bytes / moving, cycles
    )


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
        min(intensity, ridge) / BESIDE, max(intensity, ridge) * BESIDE, LEFT, WIDTH - RIGHT
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
        roof_label=f"{peak:g} {unit} a cycle",
        x_ticks=x_axis.powers_of_two(),
        y_ticks=y_axis.powers_of_two(),
        marks=tuple(_apart(marks, corner[1])),
        intensity=intensity,
        bandwidth=bandwidth,
        peak=peak,
    )


def _apart(marks: Sequence[Mark], roof_y: float, least: float = 15.0) -> list[Mark]:
    """The marks with labels that cover neither each other nor the roof, from the top."""
    placed: list[Mark] = []
    last = roof_y - 1
    for mark in sorted(marks, key=lambda mark: mark.y):
        last = max(mark.y + 4, last + least)
        placed.append(Mark(**{**mark.__dict__, "label_y": round(last, 1)}))
    return placed
