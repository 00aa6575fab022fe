"""What a search may minimise: figures of a measurement, by name.

A job with one goal looks for the least of it, one with several for the Pareto front: the trials
that no other one beats in every goal.
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
    """The goals with these names, cycles first; ``UserError`` unless cycles are among them."""
    goals = tuple(names)
    unknown = next((name for name in goals if name not in OBJECTIVES), None)
    if unknown is not None:
        near = difflib.get_close_matches(unknown, OBJECTIVES, n=1)
        raise UserError(
            f"goals={unknown[:40]}: there is no such goal",
            accepted=", ".join(OBJECTIVES),
            next_step=f"did you mean {near[0]}?" if near else "",
        )
    if CYCLES not in goals:
        raise UserError(
            f"goals={','.join(goals)} leave out the cycles",
            accepted="cycles, and whatever else is to be small",
            next_step=f"add {CYCLES}: by them jobs and schedules are compared",
        )
    if len(set(goals)) != len(goals):
        raise UserError(f"goals={','.join(goals)}", accepted="each goal once")
    return (CYCLES, *(goal for goal in goals if goal != CYCLES))


def figures_of(measured: object | None, goals: Sequence[str]) -> tuple[int, ...] | None:
    """The figures of these goals; ``None`` if one of them was not counted.

    ``measured`` is a measurement, or another record that calls the figures alike.
    """
    if measured is None:
        return None
    figures = tuple(getattr(measured, goal) for goal in goals)
    return None if None in figures else figures


class Front:
    """Figures that no others known match or beat in every goal, in the order they came."""

    def __init__(self) -> None:
        self._points: list[tuple[int, ...]] = []

    def __len__(self) -> int:
        return len(self._points)

    def copy(self) -> Front:
        """Another one that goes its own way."""
        other = Front()
        other._points = list(self._points)
        return other

    def offer(self, figures: tuple[int, ...]) -> bool:
        """Whether these belong to the front, which then loses what they beat."""
        if any(_matches(known, figures) for known in self._points):
            return False
        self._points = [known for known in self._points if not _matches(figures, known)]
        self._points.append(figures)
        return True


def front_of(
    items: Iterable[_Item], figures: Callable[[_Item], tuple[int, ...] | None]
) -> list[_Item]:
    """The items whose figures are on the Pareto front, the least of the first goal first; of equal
    ones the first. Those without figures are on no front."""
    counted = [(found, item) for item in items if (found := figures(item)) is not None]
    front = Front()
    # In this order none is beaten by a later one.
    return [item for found, item in sorted(counted, key=_first) if front.offer(found)]


def _first(pair: tuple[tuple[int, ...], object]) -> tuple[int, ...]:
    return pair[0]


def _matches(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
