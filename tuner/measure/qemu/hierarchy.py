"""The memory hierarchy that the plugin simulates: sizes from the target, the rest from its file."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields

from tuner.errors import InternalError
from tuner.measure.qemu.events import LEADS, WINDOWS
from tuner.measure.qemu.model_file import BadEntryError, ModelFile
from tuner.measure.qemu.parameters import number, source
from tuner.problem.target import Target

SYSTEM = struct.Struct(f"<12I{len(WINDOWS)}I{len(LEADS)}I")
"""``struct memory_system`` of plugin/session.h."""


@dataclass(frozen=True)
class Hierarchy:
    """What decides which events happen. Line sizes in bytes, distances in packet times."""

    l1_line_bytes: int
    l1_ways: int
    l2_line_bytes: int
    l2_ways: int
    store_to_load: int
    """Between a vector store and a load of the same line, so that the load does not wait."""
    gather_to_load: int
    """Between a gather and a load of what it gathered."""
    l1_fetch: int
    """Between a dcfetch and the load that finds its line in L1."""
    line_transfer: int
    """Between the arrivals of two lines of one l2fetch."""

    def packed(self, target: Target) -> bytes:
        """As the plugin reads it. Raises ``InternalError`` if the sizes make no whole sets."""
        return SYSTEM.pack(
            self.l1_line_bytes,
            _sets(target.l1d_bytes, self.l1_line_bytes, self.l1_ways),
            self.l1_ways,
            self.l2_line_bytes,
            _sets(target.l2_bytes, self.l2_line_bytes, self.l2_ways),
            self.l2_ways,
            target.vector_bytes,
            target.vtcm_bytes,
            self.store_to_load,
            self.gather_to_load,
            self.l1_fetch,
            self.line_transfer,
            *WINDOWS,
            *LEADS,
        )


HierarchySources = Mapping[str, str]
"""Where each number of a :class:`Hierarchy` comes from."""


def hierarchy_of(file: ModelFile) -> tuple[Hierarchy, HierarchySources]:
    """The hierarchy in ``file``; ``ToolchainError`` names the line of a broken entry."""
    names = [field.name for field in fields(Hierarchy)]
    values: dict[str, int] = {}
    sources: dict[str, str] = {}
    try:
        table = file.table("hierarchy")
        for name in (*names, *table):
            place = f"hierarchy.{name}"
            if name not in names:
                heading = rf"^\[{re.escape(place)}\]"
                raise BadEntryError(
                    f"unknown entry [{place}]; accepted: {', '.join(names)}", heading
                )
            if name not in table:
                raise BadEntryError(f"[{place}] is missing", r"\Z")
            values[name] = _whole(place, name, number(place, table[name], "value", 1, 4096))
            sources[name] = source(place, table[name], ("value", "source"))
    except BadEntryError as error:
        raise file.bad_entry(error) from None
    return Hierarchy(**values), sources


def _whole(place: str, name: str, value: float) -> int:
    power = name.endswith("_bytes")
    if value != int(value) or (power and int(value) & (int(value) - 1)):
        kind = "powers of two" if power else "whole numbers"
        raise BadEntryError(
            f"value = {value:g} in [{place}]; accepted: {kind}",
            rf"^\[{re.escape(place)}\][^\[]*?\n\s*value\s*=",
        )
    return int(value)


def _sets(cache_bytes: int, line_bytes: int, ways: int) -> int:
    sets, left = divmod(cache_bytes, line_bytes * ways)
    if left or not sets:
        raise InternalError(
            f"a cache of {cache_bytes} bytes has no whole sets of {ways} lines of {line_bytes}"
        )
    return sets
