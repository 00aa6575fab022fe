"""Targets: the machines code is made for. Alignment and vector width come from here, never from a
literal."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tuner.errors import ToolchainError, UserError
from tuner.identity import digest_of

KIB = 1024


@dataclass(frozen=True)
class Target:
    """One Hexagon configuration.

    ``vector_bytes`` is the HVX register width and, on every arch so far, also the alignment that
    aligned vector loads and stores need (``vector_alignment_bytes``); they are separate fields
    because they answer separate questions. ``vtcm_bytes`` differs between SoCs of one arch, so
    the SoC is part of the name and of every key.
    """

    name: str
    arch: str
    soc: str | None
    vector_bytes: int
    vector_alignment_bytes: int
    hvx_contexts: int
    l1d_bytes: int
    l2_bytes: int
    vtcm_bytes: int
    u8_macs_per_cycle: int
    """Peak u8 multiply-accumulates per cycle of one HVX context: two vrmpy-capable multiply
    pipes, each vector_bytes lanes wide (facts of the arch; V66 HVX manual, multiply resources)."""

    def lanes(self, element_bytes: int) -> int:
        """How many elements of ``element_bytes`` one native vector holds."""
        return self.vector_bytes // element_bytes

    def as_dict(self) -> dict[str, Any]:
        """All fields, as stored and as part of cache keys."""
        return asdict(self)

    @cached_property
    def digest(self) -> str:
        """Names the target, figures and all, in the database."""
        return digest_of(self.as_dict())


@dataclass(frozen=True)
class Figure:
    """A value of ``targets.toml`` and the name of its source there."""

    value: float | str
    source: str


@dataclass(frozen=True)
class TargetRow:
    """A target as ``targets.toml`` lists it. ``chip`` is the name an SoC is sold by, empty for an
    arch. ``figures`` are sizes in KiB, ``clock_ghz``, ``ddr_read_gb_s``, ``ddr_write_gb_s`` and
    ``note``, as far as they are known; those an SoC does not state are its arch's."""

    target: Target
    chip: str
    figures: Mapping[str, Figure]

    def known(self, name: str) -> float | str | None:
        """The value of a figure, ``None`` if none is known."""
        figure = self.figures.get(name)
        return None if figure is None else figure.value


_TABLE = Path(__file__).with_name("targets.toml")
_NEEDED = ("hvx_contexts", "vtcm_kib", "l2_kib", "l1d_kib")
"""The figures that code and timing depend on."""
_FURTHER = ("clock_ghz", "ddr_read_gb_s", "ddr_write_gb_s")
_NAMES = ("arch", "soc", "chip")
_ACCEPTED = 'NAME = [VALUE, "SOURCE"], of the sources in [sources]'


def read_targets(text: str) -> dict[str, TargetRow]:
    """The rows of a table of targets by name, in its order.

    Raises ``ToolchainError`` that names the row and the figure with what is wrong: no source, an
    unknown one, another type, a name given twice.
    """
    try:
        table = tomllib.loads(text)
        sources, listed = table["sources"], table["target"]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise _broken(f"{error}", "tables [sources] and [[target]]") from None
    rows: dict[str, TargetRow] = {}
    for entry in listed:
        row = _row(entry, sources, rows)
        if row.target.name in rows:
            raise _broken(f"{row.target.name} is listed twice", "one row a target")
        rows[row.target.name] = row
    return rows


def sources_of(text: str) -> dict[str, str]:
    """The sources of a table of targets, by the names its figures call them."""
    return dict(tomllib.loads(text)["sources"])


def _row(
    entry: Mapping[str, Any], sources: Mapping[str, str], before: Mapping[str, TargetRow]
) -> TargetRow:
    arch, soc = entry.get("arch"), entry.get("soc")
    if not isinstance(arch, str):
        raise _broken(f"a row has arch = {arch!r}", 'such as arch = "v73"')
    name = f"hexagon-{arch}" + (f"-{soc}" if soc else "")
    own = {
        key: _figure(f"{name}: {key}", key, given, sources)
        for key, given in entry.items()
        if key not in _NAMES
    }
    general = before.get(f"hexagon-{arch}") if soc else None
    figures = {**(general.figures if general else {}), **own}
    missing = [key for key in _NEEDED if key not in figures]
    if missing:
        raise _broken(f"{name} lacks {', '.join(missing)}", f"{_ACCEPTED}, or those of its arch")
    contexts, vtcm, l2, l1d = (int(figures[key].value) for key in _NEEDED)
    target = Target(
        name=name,
        arch=arch,
        soc=soc,
        vector_bytes=128,
        vector_alignment_bytes=128,
        hvx_contexts=contexts,
        l1d_bytes=l1d * KIB,
        l2_bytes=l2 * KIB,
        vtcm_bytes=vtcm * KIB,
        u8_macs_per_cycle=256,
    )
    return TargetRow(target, entry.get("chip", ""), figures)


def _figure(place: str, key: str, given: object, sources: Mapping[str, str]) -> Figure:
    if key not in (*_NEEDED, *_FURTHER, "note"):
        raise _broken(f"{place} is unknown", ", ".join((*_NAMES, *_NEEDED, *_FURTHER, "note")))
    match given:
        case [str(text), str(source)] if key == "note" and source in sources:
            return Figure(text, source)
        case [int(size), str(source)] if key in _NEEDED and size > 0 and source in sources:
            return Figure(size, source)
        case [int() | float() as rate, str(source)] if (
            key in _FURTHER and rate > 0 and source in sources
        ):
            return Figure(rate, source)
        case [value, str(source)] if source in sources:
            kind = "a text" if key == "note" else "a positive number"
            raise _broken(f"{place} = {value!r}", f"{kind}{', whole' if key in _NEEDED else ''}")
        case [_, str(source)]:
            raise _broken(f"{place} has the unknown source '{source}'", ", ".join(sources))
    raise _broken(f"{place} = {given!r} has no source", _ACCEPTED)


def _broken(what: str, accepted: str) -> ToolchainError:
    return ToolchainError(
        f"the table of targets cannot be used: {what}",
        accepted=accepted,
        next_step=f"repair {_TABLE}, or install hvxtune again",
    )


TARGET_ROWS: dict[str, TargetRow] = read_targets(_TABLE.read_text())
"""Known targets with the sources of their figures, by name. A row of ``targets.toml`` adds one."""

TARGETS: dict[str, Target] = {name: row.target for name, row in TARGET_ROWS.items()}
"""Known targets by name."""

BASELINE_TARGET = "hexagon-v66"
"""A target that every simulator here runs: for code that is run whatever its target, and the
default where none was chosen."""


def target_sources() -> dict[str, str]:
    """The sources in full, by the names that figures of :data:`TARGET_ROWS` call them."""
    return sources_of(_TABLE.read_text())


_PREFIX = "hexagon-"


def find_target(name: str) -> Target:
    """The target called ``name``, in full or without ``hexagon-``, such as ``v66``; ``UserError``
    names those of its arch otherwise."""
    found = TARGETS.get(name) or TARGETS.get(f"{_PREFIX}{name}")
    if found is not None:
        return found
    whole = name if name.startswith(_PREFIX) else f"{_PREFIX}{name}"
    near = difflib.get_close_matches(whole, TARGETS, n=1)
    archs = ", ".join(name for name, target in TARGETS.items() if target.soc is None)
    raise UserError(
        f"unknown target '{name[:40]}'",
        accepted=f"{archs}, and chips of these",
        next_step=f"did you mean {near[0]}?" if near else "`hvxtune targets` lists them",
    )
