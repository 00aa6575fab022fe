"""The sizes a pipeline is looked at: given for its output, found for its inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.space.derivation.facts import BufferFacts

_DEFAULTS = {1: (16384,), 2: (256, 64), 3: (64, 32, 8), 4: (32, 16, 16, 1)}
"""Extents of an output by its dimensions, innermost first, until somebody chooses others: enough
for vectors, and few enough that the unscheduled code runs in seconds."""
_OTHERWISE = 4
_FREE = 64
_NUMBER = re.compile(r"-?\d{1,9}")


@dataclass
class Sizes:
    """Reads ``given`` extents by the names of parameters, and keeps which names there are."""

    given: Mapping[str, int]
    dimensions: Sequence[str]
    _names: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rank = len(self.dimensions)
        defaults = _DEFAULTS.get(rank, (_OTHERWISE,) * rank)
        extents = []
        for number, (dimension, default) in enumerate(zip(self.dimensions, defaults, strict=True)):
            name = self._named(dimension, f"d{number}")
            self._names[name] = {"default": default, "doc": f"extent of the output along {name}"}
            extents.append(self.given.get(name, default))
        self.output: tuple[int, ...] = tuple(extents)

    def _named(self, wanted: str, otherwise: str) -> str:
        plain = re.sub(r"\W", "_", wanted.lower()).strip("_")
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", plain) or plain in self._names:
            plain = otherwise
        return plain

    def input(self, name: str, dtype: str, needs: Sequence[tuple[str, str]]) -> BufferFacts:
        """The buffer of input ``name``, of which ``needs`` (min and extent, as lowered text) is
        read. Where that is not fixed, its extent is a parameter."""
        mins, extents, free = [], [], []
        for number, (least, extent) in enumerate(needs):
            if _NUMBER.fullmatch(least) and _NUMBER.fullmatch(extent):
                first = min(0, int(least))
                mins.append(first)
                extents.append(int(least) + int(extent) - first)
                continue
            own = self._named(f"{name}_{number}", f"input_{number}")
            self._names[own] = {
                "default": 0,
                "doc": f"extent of {name} in dimension {number}; 0: as the output's, or {_FREE}",
            }
            mins.append(0)
            usual = self.output[number] if number < len(self.output) else _FREE
            extents.append(self.given.get(own, 0) or usual)
            free.append(number)
        return BufferFacts(name, dtype, tuple(mins), tuple(extents), tuple(free))

    def params(self) -> list[dict[str, Any]]:
        """The parameters there are: name, default, and what they mean."""
        return [{"name": name, **about} for name, about in self._names.items()]
