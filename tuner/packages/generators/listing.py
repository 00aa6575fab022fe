"""The Generators of a program, with the GeneratorParams that can be knobs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuner.codegen.confinement import SYSTEM
from tuner.codegen.halide.servers import MEMORY_LIMIT_BYTES, TIME_LIMIT_S, CompileServers
from tuner.errors import CandidateError, UserError
from tuner.identity import digest_of_bytes
from tuner.machine.whole_files import write_whole
from tuner.packages.generators.compiler import halide_wheel, listing_library
from tuner.paths import cached

_FOLDER = "generators"
_LISTING = "listing"
_ENUMERATOR = re.compile(r'\{ Enum_\w+::\w+, "([^"]*)"\}')
_MOST_CHOICES = 16
"""A range of more integers than this is searched by its powers of two."""
_DEFAULT_RANGE = 8
"""Times the default, of an integer without bounds."""


@dataclass(frozen=True)
class GeneratorParam:
    """A GeneratorParam as the program tells of it. ``default`` is text as it takes it back;
    ``names`` are those of an enumeration; ``least`` and ``most`` bound an integer."""

    name: str
    type: str
    default: str
    names: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    @property
    def choices(self) -> tuple[int, ...] | tuple[str, ...]:
        """Values worth a search; none for a type that has no few of them (numbers with a fraction,
        text, types of elements)."""
        if self.type == "bool":
            return ("false", "true")
        if self.names:
            return self.names
        if self.least is None or self.most is None:
            return ()
        return _integers(self.least, self.most, int(self.default))

    def takes(self, value: int | str) -> bool:
        """Whether the program means something by ``value``. Halide 21 checks no bounds of numbers
        that are given as text."""
        if self.names or self.type == "bool":
            return value in self.choices
        if self.least is not None and self.most is not None:
            text = str(value)
            return re.fullmatch(r"-?\d+", text) is not None and (
                self.least <= int(text) <= self.most
            )
        return True


@dataclass(frozen=True)
class Argument:
    """An Input or Output of a Generator; ``types`` in Halide's words, such as ``uint8``.

    Those of a ``Buffer<>`` are open until GeneratorParams settle them: ``types`` is empty then,
    ``dimensions`` negative.
    """

    name: str
    output: bool
    buffer: bool
    dimensions: int
    types: tuple[str, ...]

    @property
    def params(self) -> tuple[str, str]:
        """The GeneratorParams that Halide adds for its type and dimensions."""
        return f"{self.name}.type", f"{self.name}.dim"

    def settled(self, params: Mapping[str, int | str]) -> Argument:
        """With what ``params`` say of what is open."""
        kind, rank = map(params.get, self.params)
        types = self.types or (() if kind is None else (str(kind),))
        known = self.dimensions if self.dimensions >= 0 or rank is None else rank
        dimensions = int(known) if str(known).isdigit() else -1
        return replace(self, types=types, dimensions=dimensions)


@dataclass(frozen=True)
class Generator:
    """A Generator of a program, by the name it is registered under."""

    name: str
    arguments: tuple[Argument, ...]
    params: tuple[GeneratorParam, ...]

    @property
    def has_floats(self) -> bool:
        """Whether any of its arguments is of floats."""
        return any("float" in kind for one in self.arguments for kind in one.types)


def listed(program: Path) -> tuple[Generator, ...]:
    """All Generators of ``program``; ``UserError`` if it fails while it is asked."""
    return _listed(program, listing_library())


@lru_cache(maxsize=64)
def _listed(program: Path, library: Path) -> tuple[Generator, ...]:
    name = digest_of_bytes(f"{program.name}\0{library.name}".encode())
    place = cached(_FOLDER) / f"{name}.json"
    if place.exists():
        text = place.read_bytes()
    else:
        text = _asked(program, library)
        write_whole(place, text)
    return _read(json.loads(text))


def _asked(program: Path, library: Path) -> bytes:
    wheel = halide_wheel() / "lib64"
    request = {
        "program": [str(program)],
        "reads": [*SYSTEM, str(wheel), str(library)],
        "environment": {"LD_LIBRARY_PATH": str(wheel), "LD_PRELOAD": str(library)},
    }
    servers = CompileServers(1, TIME_LIMIT_S, MEMORY_LIMIT_BYTES)
    try:
        with servers.one() as server:
            return servers.made(server, request, [_LISTING])[_LISTING]
    except CandidateError as error:
        raise UserError(
            f"the program of Generators fails while it lists them: {error.message[:300]}",
            accepted="Generators that can be constructed with their defaults",
            next_step="run the program with -h to see for yourself",
        ) from None
    finally:
        servers.close()


def _read(found: Sequence[dict[str, Any]]) -> tuple[Generator, ...]:
    return tuple(
        Generator(
            one["name"],
            tuple(
                Argument(a["name"], a["output"], a["buffer"], a["dimensions"], tuple(a["types"]))
                for a in one["arguments"]
            ),
            tuple(_param(param) for param in one["params"]),
        )
        for one in found
    )


def _param(told: dict[str, Any]) -> GeneratorParam:
    return GeneratorParam(
        told["name"],
        told["type"],
        told["default"].rpartition("::")[2],
        tuple(_ENUMERATOR.findall(told["declarations"])),
        told.get("least"),
        told.get("most"),
    )


def _integers(least: int, most: int, default: int) -> tuple[int, ...]:
    """All of a small range; else its bounds, its powers of two and the default, and of a range
    beyond any reason only what lies near the default."""
    if most - least < _MOST_CHOICES:
        return tuple(range(least, most + 1))
    far = _DEFAULT_RANGE * max(abs(default), 1)
    near = (max(least, min(default, 0)), min(most, max(far, _MOST_CHOICES)))
    powers = (1 << exponent for exponent in range(near[1].bit_length()))
    found = {*(one for one in powers if near[0] <= one <= near[1]), default, near[0]}
    return tuple(sorted(found))
