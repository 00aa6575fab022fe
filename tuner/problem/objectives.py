"""Objectives: the figures of a measurement that a search may minimize, by name.

A job with one objective looks for the least of it, one with several for the Pareto front: the
trials that no other one beats in every objective.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tuner.errors import UserError

CYCLES = "cycles"
DEFAULT_OBJECTIVES = (CYCLES,)
OBJECTIVES = {
    CYCLES: "cycles of the timed call",
    "code_bytes": "bytes of the candidate's own code",
    "vtcm_bytes": "bytes of VTCM it touches",
    "ddr_bytes": "bytes the timed call moves from and to DDR",
}
"""Each is a field of :class:`tuner.records.candidate.Measurement`."""

_Item = TypeVar("_Item")


def checked_objectives(names: Iterable[str]) -> tuple[str, ...]:
    """The objectives with these names, cycles first; ``UserError`` unless cycles are among them."""
    objectives = tuple(names)
    unknown = next((name for name in objectives if name not in OBJECTIVES), None)
    if unknown is not None:
        near = difflib.get_close_matches(unknown, OBJECTIVES, n=1)
        raise UserError(
            f"objectives={unknown[:40]}: unknown objective",
            accepted=", ".join(OBJECTIVES),
            next_step=f"did you mean {near[0]}?" if near else "",
        )
    if CYCLES not in objectives:
        raise UserError(
            f"objectives={','.join(objectives)} leaves out cycles",
            accepted="cycles, and whatever else is to be minimized",
            next_step=f"add {CYCLES}: jobs and schedules are compared by them",
        )
    if len(set(objectives)) != len(objectives):
        raise UserError(f"objectives={','.join(objectives)}", accepted="each objective once")
    return (CYCLES, *(name for name in objectives if name != CYCLES))


def figures_of(measured: object | None, objectives: Sequence[str]) -> tuple[int, ...] | None:
    """The figures of these objectives; ``None`` if one of them was not counted.

    ``measured`` is a measurement, or another record that calls the figures alike.
    """
    if measured is None:
        return None
    figures = tuple(getattr(measured, name) for name in objectives)
    return None if None in figures else figures


class Front:
    """Figures that no others known match or beat in every objective, in the order they came."""

    def __init__(self) -> None:
        self._points: list[tuple[float, ...]] = []

    def __len__(self) -> int:
        return len(self._points)

    def copy(self) -> Front:
        """Another one that goes its own way."""
        other = Front()
        other._points = list(self._points)
        return other

    def offer(self, figures: tuple[float, ...]) -> bool:
        """Whether these belong to the front, which then loses what they beat."""
        if any(_matches(known, figures) for known in self._points):
            return False
        self._points = [known for known in self._points if not _matches(figures, known)]
        self._points.append(figures)
        return True


def front_of(
    items: Iterable[_Item], figures: Callable[[_Item], tuple[float, ...] | None]
) -> list[_Item]:
    """The items whose figures are on the Pareto front, by the first objective; of equal ones only
    the first. Those without figures are left out."""
    counted = [(found, item) for item in items if (found := figures(item)) is not None]
    front = Front()
    # In this order none is beaten by a later one.
    return [item for found, item in sorted(counted, key=_first) if front.offer(found)]


def _first(pair: tuple[tuple[float, ...], object]) -> tuple[float, ...]:
    return pair[0]


def _matches(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
