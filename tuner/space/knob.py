"""Knobs: the named choices a space is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import lt
from typing import Any

from tuner.errors import UserError
from tuner.space.config import KnobValue
from tuner.space.expression import Expression, expression

_KINDS = ({int}, {str})


@dataclass(frozen=True)
class Knob:
    """One choice of a schedule.

    ``choices`` are all integers in rising order (an ordered knob: samplers may use the order) or
    all strings (a categorical one). ``when`` is a condition over earlier knobs and the space's
    constants; where it is false the knob is inactive and absent from configs.
    """

    name: str
    choices: tuple[KnobValue, ...]
    doc: str
    when: str | None = None

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise UserError(f"knob name '{self.name}'", accepted="letters, digits, underscore")
        # Spaces are made anew for each problem, some thousands a second where they are served.
        kinds = set(map(type, self.choices))
        if kinds not in _KINDS:
            raise UserError(
                f"knob {self.name} has choices {list(self.choices)!r}",
                accepted="a list of integers or a list of strings, not empty",
            )
        if len(set(self.choices)) != len(self.choices):
            raise UserError(f"knob {self.name} lists a choice twice: {list(self.choices)!r}")
        if int in kinds and not all(map(lt, self.choices, self.choices[1:])):
            raise UserError(f"knob {self.name}: integer choices must rise: {list(self.choices)!r}")

    @property
    def ordered(self) -> bool:
        """Whether the choices are integers."""
        return isinstance(self.choices[0], int)

    @property
    def condition(self) -> Expression | None:
        """``when``, read; ``None`` for a knob that is always active."""
        return None if self.when is None else expression(self.when)

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "name": self.name,
            "choices": list(self.choices),
            "doc": self.doc,
            "when": self.when,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Knob:
        """The inverse of :meth:`as_dict`."""
        return cls(data["name"], tuple(data["choices"]), data["doc"], data["when"])
