"""Configs from what one would like: used for default and textbook schedules of any shape."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tuner.space import Config, Knob, KnobValue, Space


def settle(space: Space, wanted: Mapping[str, KnobValue], *, nearest: bool = False) -> Config:
    """The config of ``space`` that is nearest to ``wanted``.

    Knobs are settled in order, each at its wanted value if there is a config with it, else (a
    tile larger than the image, say), and if it is not in ``wanted``, at its first choice that
    there is a config with, or if ``nearest``, at the number that is the fewest times larger or
    smaller. Raises ``UserError`` if the space is empty.
    """
    found = _settle(space, wanted, 0, {}, nearest)
    return space.config(found if found is not None else {})


def _settle(
    space: Space,
    wanted: Mapping[str, KnobValue],
    position: int,
    values: dict[str, KnobValue],
    nearest: bool,
) -> dict[str, KnobValue] | None:
    """``values`` with the knobs from ``position`` on, or ``None`` where that is a dead end."""
    if position == len(space.knobs):
        return values
    knob = space.knobs[position]
    if knob not in space.walk(values):
        return _settle(space, wanted, position + 1, values, nearest)
    for choice in _by_liking(knob, wanted.get(knob.name), nearest):
        longer = {**values, knob.name: choice}
        if space.violation(longer) is None:
            found = _settle(space, wanted, position + 1, longer, nearest)
            if found is not None:
                return found
    return None


def _by_liking(knob: Knob, wanted: KnobValue | None, nearest: bool) -> list[KnobValue]:
    """The choices of ``knob``, the wanted one first."""
    if not (nearest and isinstance(wanted, int)):
        return sorted(knob.choices, key=lambda choice: choice != wanted)
    size = 1 + abs(wanted)

    def ratio(choice: KnobValue) -> float:
        return abs(math.log((1 + abs(choice)) / size)) if isinstance(choice, int) else math.inf

    return sorted(knob.choices, key=ratio)
