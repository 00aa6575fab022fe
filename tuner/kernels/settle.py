"""Configs from what one would like: used for default and textbook schedules of any shape."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.space import Config, KnobValue, Space


def settle(space: Space, wanted: Mapping[str, KnobValue]) -> Config:
    """The config of ``space`` that is nearest to ``wanted``.

    Knobs are settled in order, each at its wanted value if there is a config with it, else (a
    tile larger than the image, say), and if it is not in ``wanted``, at its first choice that
    there is a config with. Raises ``UserError`` if the space is empty.
    """
    found = _settle(space, wanted, 0, {})
    return space.config(found if found is not None else {})


def _settle(
    space: Space, wanted: Mapping[str, KnobValue], position: int, values: dict[str, KnobValue]
) -> dict[str, KnobValue] | None:
    """``values`` with the knobs from ``position`` on, or ``None`` where that is a dead end."""
    if position == len(space.knobs):
        return values
    knob = space.knobs[position]
    if knob not in space.walk(values):
        return _settle(space, wanted, position + 1, values)
    liked = [choice for choice in knob.choices if choice == wanted.get(knob.name)]
    for choice in dict.fromkeys((*liked, *knob.choices)):
        longer = {**values, knob.name: choice}
        if space.violation(longer) is None:
            found = _settle(space, wanted, position + 1, longer)
            if found is not None:
                return found
    return None
