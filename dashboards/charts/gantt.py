"""A plan as a Gantt chart: units and links as rows, what they do as bars over modelled time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.charts.network_graph import COLOURS
from tuner.records.batch import NetworkLayer
from tuner.records.network_plan import Bar, NetworkPlan

LEFT, RIGHT, TOP = 200.0, 20.0, 6.0
WIDTH = 1300.0
ROW, BAR = 30.0, 20.0
_LEAST = 1.0
"""Pixels of the shortest bar."""
_TICKS = 8


@dataclass(frozen=True)
class Piece:
    """A bar in pixels. ``kind`` is that of the plan's bar, ``colour`` that of the unit."""

    x: float
    y: float
    width: float
    kind: str
    colour: int
    title: str


@dataclass(frozen=True)
class Gantt:
    """The chart, in pixels: ``rows`` are names with the y of their middle."""

    height: float
    rows: tuple[tuple[str, float], ...]
    pieces: tuple[Piece, ...]
    ticks: tuple[tuple[float, str], ...]
    width: float = WIDTH
    left: float = LEFT
    bar_height: float = BAR


def gantt(plan: NetworkPlan, layers: Sequence[NetworkLayer]) -> Gantt:
    """The chart of ``plan`` for ``layers``."""
    names = [unit.name for unit in plan.units]
    rows = dict.fromkeys([*names, *(bar.runs_on for bar in plan.bars)])
    rows = dict.fromkeys(name for name in rows if any(bar.runs_on == name for bar in plan.bars))
    place = {name: TOP + ROW * n for n, name in enumerate(rows)}
    span_us = max((bar.end_us for bar in plan.bars), default=0.0) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / span_us
    pieces = tuple(
        Piece(
            round(LEFT + bar.start_us * scale, 2),
            place[bar.runs_on] + (ROW - BAR) / 2,
            round(max(_LEAST, (bar.end_us - bar.start_us) * scale), 2),
            bar.kind,
            names.index(bar.runs_on) % COLOURS if bar.runs_on in names else 0,
            title_of(bar, plan, layers),
        )
        for bar in plan.bars
    )
    middle = tuple((name, y + ROW / 2) for name, y in place.items())
    ticks = tuple((round(LEFT + us * scale, 1), f"{us:,g}") for us in _ticks(span_us))
    return Gantt(TOP + ROW * len(place) + 34, middle, pieces, ticks)


def title_of(bar: Bar, plan: NetworkPlan, layers: Sequence[NetworkLayer]) -> str:
    """A bar in words: the work, and its times in microseconds."""
    name = layers[bar.layer].name if bar.layer is not None else ""
    what = {"task": name, "copy": f"copy of the output of {name}", "call": f"call {name}".strip()}
    of_input = f", input {bar.stream_input}" if plan.objective == "throughput" else ""
    return f"{what[bar.kind]}{of_input}: {bar.start_us:,.1f} to {bar.end_us:,.1f} us"


def _ticks(span: float) -> list[float]:
    """Round values from 0 to ``span``."""
    power = 10.0 ** math.floor(math.log10(span / _TICKS))
    step = next(n * power for n in (1, 2, 5, 10) if span / (n * power) <= _TICKS)
    return [n * step for n in range(int(span / step) + 1)]
