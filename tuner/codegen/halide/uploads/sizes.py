"""The sizes a pipeline is looked at: given for its outputs, found for its inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tuner.space.derivation.facts import BufferFacts, ScalarFacts

_DEFAULTS = {1: (16384,), 2: (256, 64), 3: (64, 32, 8), 4: (32, 16, 16, 1)}
"""Extents of an output by its dimensions, innermost first, until somebody chooses others: enough
for vectors, and few enough that the unscheduled code runs in seconds."""
_OTHERWISE = 4
_FREE = 64
_LARGEST = 65536
_SCALAR = 1
"""The value of a scalar until somebody chooses another: 0 would make nothing of many pipelines."""
_NUMBER = re.compile(r"-?\d{1,9}")


@dataclass
class Sizes:
    """Reads ``given`` values by the names of parameters, and keeps which names there are."""

    given: Mapping[str, int]
    _names: dict[str, dict[str, Any]] = field(default_factory=dict)
    _first: tuple[int, ...] = ()
    _dimensions: tuple[str, ...] = ()

    def output(self, name: str, dimensions: Sequence[str]) -> tuple[int, ...]:
        """The extents of an output. The parameters of the first one are named as its dimensions;
        others are as large as it along dimensions of the same name, until something else is
        chosen."""
        if self._dimensions:
            return tuple(
                self._extent(
                    self._named(f"{name}_{dimension}", f"{name}_{number}"),
                    f"extent of {name} along {dimension}",
                    dict(zip(self._dimensions, self._first, strict=True)).get(dimension, _FREE),
                )
                for number, dimension in enumerate(dimensions)
            )
        rank = len(dimensions)
        extents = []
        for number, (dimension, default) in enumerate(
            zip(dimensions, _DEFAULTS.get(rank, (_OTHERWISE,) * rank), strict=True)
        ):
            own = self._named(dimension, f"d{number}")
            self._add(own, default, f"extent of the output along {own}", minimum=1)
            extents.append(self.given.get(own, default))
        self._first, self._dimensions = tuple(extents), tuple(dimensions)
        return self._first

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
            usual = self._first[number] if number < len(self._first) else _FREE
            extents.append(self._extent(own, f"extent of {name} in dimension {number}", usual))
            mins.append(0)
            free.append(number)
        return BufferFacts(name, dtype, tuple(mins), tuple(extents), tuple(free))

    def scalar(self, name: str, dtype: str) -> ScalarFacts:
        """The scalar input ``name``: its value is a parameter."""
        own = self._named(name, f"scalar_{len(self._names)}")
        bounds = np.iinfo(dtype)
        least, most = int(bounds.min), int(bounds.max)
        doc = f"value of the scalar {name}"
        self._add(own, _SCALAR, doc, minimum=least, maximum=most, is_extent=False)
        return ScalarFacts(name, dtype, self.given.get(own, _SCALAR))

    def loose(self, buffer: BufferFacts) -> BufferFacts:
        """``buffer`` with what is taken back of its promises: a parameter too. Ask after all that
        have extents: these keep their names."""
        rank = len(buffer.extents)
        own = self._named(f"{buffer.name}_loose", "loose")
        doc = (
            f"{buffer.name} lies anywhere, as rows of so many dense dimensions at any stride; "
            "0: as the contract says"
        )
        self._add(own, 0, doc, minimum=0, maximum=rank, is_extent=False, is_optional=True)
        return replace(buffer, loose=self.given.get(own, 0))

    def params(self) -> list[dict[str, Any]]:
        """The parameters there are: name, default, range, and what they mean."""
        return [{"name": name, **about} for name, about in self._names.items()]

    def _extent(self, own: str, doc: str, usual: int) -> int:
        """An extent that need not be chosen."""
        self._add(own, 0, f"{doc}; 0: as the output's, or {_FREE}", minimum=0)
        return self.given.get(own, 0) or usual

    def _add(
        self,
        own: str,
        default: int,
        doc: str,
        *,
        minimum: int,
        maximum: int = _LARGEST,
        is_extent: bool = True,
        is_optional: bool = False,
    ) -> None:
        limits = {"minimum": minimum, "maximum": maximum}
        kind = {"is_extent": is_extent, "is_optional": is_optional}
        self._names[own] = {"default": default, "doc": doc, **limits, **kind}

    def _named(self, wanted: str, otherwise: str) -> str:
        plain = _plain(wanted)
        if plain and plain not in self._names:
            return plain
        plain, number = _plain(otherwise) or "size", 2
        found = plain
        while found in self._names:
            found, number = f"{plain}_{number}", number + 1
        return found


def _plain(wanted: str) -> str:
    """A name fit for a parameter; empty if nothing is left of ``wanted``."""
    plain = re.sub(r"\W", "_", wanted.lower()).strip("_")
    return plain if re.fullmatch(r"[a-z][a-z0-9_]{0,39}", plain) else ""
