"""Configs from what one would like: used for default and textbook schedules of any shape."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.space import Config, KnobValue, Space


def settle(space: Space, wanted: Mapping[str, KnobValue]) -> Config:
    """The config of ``space`` that takes each value of ``wanted`` that is possible.

    Knobs are settled in order. Where the wanted value breaks a constraint (a tile larger than the
    image, say), and for active knobs not in ``wanted``, the first choice that breaks none is
    taken. Raises ``UserError`` if none is left.
    """
    values: dict[str, KnobValue] = {}
    for knob in space.walk(values):
        liked = [c for c in knob.choices if c == wanted.get(knob.name)]
        for choice in (*liked, *knob.choices):
            if space.violation({**values, knob.name: choice}) is None:
                values[knob.name] = choice
                break
    return space.config(values)
