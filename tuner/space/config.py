"""Configs: immutable points of a space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from tuner.identity import canonical_json, digest_of

KnobValue = int | str
"""The value of a knob. Switches are the strings ``on`` and ``off``."""


class Config(Mapping[str, KnobValue]):
    """One point of a space: the value of every active knob, immutable and hashable.

    Knobs that are inactive (their condition does not hold) are absent, so equal schedules have
    equal configs. Two configs are equal if they hold the same values, whatever the order.
    """

    def __init__(self, values: Mapping[str, KnobValue]) -> None:
        self._values = dict(values)

    def __getitem__(self, knob: str) -> KnobValue:
        return self._values[knob]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._values == other._values

    def __repr__(self) -> str:
        return f"Config({self._values!r})"

    def integer(self, knob: str) -> int:
        """The value of an integer knob; ``TypeError`` if it holds a string."""
        value = self._values[knob]
        if not isinstance(value, int):
            raise TypeError(f"knob {knob} holds {value!r}, not an integer")
        return value

    def text(self, knob: str) -> str:
        """The value of a string knob; ``TypeError`` if it holds an integer."""
        value = self._values[knob]
        if not isinstance(value, str):
            raise TypeError(f"knob {knob} holds {value!r}, not a string")
        return value

    def is_on(self, knob: str) -> bool:
        """Whether a switch knob is active and ``on``."""
        return self._values.get(knob) == "on"

    def as_dict(self) -> dict[str, KnobValue]:
        """A plain copy, in the order of the knobs."""
        return dict(self._values)

    @cached_property
    def json(self) -> str:
        """Canonical JSON."""
        return canonical_json(self._values)

    @cached_property
    def digest(self) -> str:
        """Names the config in the database."""
        return digest_of(self._values)
