"""The units a network can run on, and the links between them, in words::

[units.arm_cpu]
host = true
macs_per_us = 20000.0
moved_bytes_per_us = 8000.0

[units.hexagon_cdsp]
target = "hexagon-v66"
cycles_per_us = 500.0
call_us = 35.0

[units.hexagon_cdsp.scopes]
ddr = { bytes_per_us = 12000.0 }
l2 = { bytes_per_us = 30000.0 }
vtcm = { bytes = 262144, bytes_per_us = 60000.0 }

[[links]]
between = ["arm_cpu", "hexagon_cdsp"]
bytes_per_us = 4000.0
latency_us = 2.0
dma = true
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.errors import UserError
from tuner.problem.target import TARGETS, find_target


@dataclass(frozen=True)
class Scope:
    """A memory of a unit: the bytes it moves in a microsecond, and those it holds (0 for DDR, whose
    capacity does not count)."""

    bytes_per_us: float
    capacity_bytes: int = 0


@dataclass(frozen=True)
class Unit:
    """Runs nodes one after the other. ``call_us`` is the cost of one call from the host to it: for
    all nodes in a row if calls are ``queued``, otherwise for each.

    Speeds are for :mod:`tuner.network.planning.costs`, 0 where they are not stated. A unit with a
    ``target`` runs kernels, ``cycles_per_us`` of a measurement's cycles in a microsecond; others
    run every operator, at multiply-accumulates and at bytes moved in a microsecond. ``scopes`` are
    by name: ``ddr``, ``l2`` and ``vtcm``, as far as they are stated.

    A mesh has several equal ``elements`` in a row, in subsets of which each has a coordinator.
    Speeds are those of one element, which holds ``element_bytes`` (0 if that is not stated) and
    exchanges operands with others at ``exchange_bytes_per_us``, with ``exchange_latency_us`` for
    each input.
    """

    name: str
    host: bool = False
    call_us: float = 0.0
    queued: bool = True
    target: str = ""
    cycles_per_us: float = 0.0
    macs_per_us: float = 0.0
    moved_bytes_per_us: float = 0.0
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    elements: int = 1
    coordinators: int = 1
    element_bytes: int = 0
    exchange_bytes_per_us: float = 0.0
    exchange_latency_us: float = 0.0


@dataclass(frozen=True)
class Link:
    """Between two units: bandwidth (bytes per microsecond) and the microseconds that each transfer
    takes besides. Copies run beside both units if they are by ``dma``; otherwise the unit that
    reads makes them."""

    bytes_per_us: float
    latency_us: float = 0.0
    dma: bool = False


@dataclass(frozen=True)
class Topology:
    """Units, the host first, and the links between two of them."""

    units: tuple[Unit, ...]
    links: Mapping[frozenset[str], Link]

    def unit(self, name: str) -> Unit:
        """The unit called ``name``."""
        return next(unit for unit in self.units if unit.name == name)

    def transfer_us(self, moved_bytes: int, source: str, target: str) -> float | None:
        """Microseconds that ``moved_bytes`` take between two units; ``None`` without a link."""
        if source == target:
            return 0.0
        link = self.links.get(frozenset((source, target)))
        if link is None:
            return None
        return link.latency_us + moved_bytes / link.bytes_per_us if moved_bytes else 0.0


_SPEEDS = ("cycles_per_us", "macs_per_us", "moved_bytes_per_us")
_EXCHANGE = ("exchange_bytes_per_us", "exchange_latency_us")
_OF_MESH = ("elements", "coordinators", "element_bytes", *_EXCHANGE)
_MOST_ELEMENTS = 10**6
_EXAMPLE = "docs/networks.md shows a topology file"


def read_topology(path: Path) -> Topology:
    """The topology in the TOML file ``path``. Raises ``UserError`` naming the key."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}", next_step=_EXAMPLE) from None
    _known(path, "", content, ("units", "links"))
    tables = content.get("units")
    if not isinstance(tables, dict) or not tables:
        raise UserError(f"{path} has no [units.NAME]", next_step=_EXAMPLE)
    units = [_unit(path, name, table) for name, table in tables.items()]
    hosts = [unit.name for unit in units if unit.host]
    if len(hosts) != 1:
        raise UserError(f"{path} has {len(hosts)} units with host = true", accepted="one of them")
    links = content.get("links", [])
    if not isinstance(links, list):
        raise UserError(f"{path}: links is not a list of tables", accepted="[[links]]")
    found: dict[frozenset[str], Link] = {}
    for place, table in enumerate(links):
        ends, link = _link(path, place, table, tables)
        if ends in found:
            both = " and ".join(sorted(ends))
            raise UserError(f"{path}: links[{place}] is a second one of {both}", accepted="one")
        found[ends] = link
    return Topology(tuple(sorted(units, key=lambda unit: not unit.host)), found)


def _known(path: Path, where: str, table: Any, keys: tuple[str, ...]) -> None:
    if not isinstance(table, dict):
        raise UserError(f"{path}: {where.rstrip('.')} is not a table", accepted=", ".join(keys))
    for key in table.keys() - set(keys):
        raise UserError(f"{path}: unknown key {where}{key}", accepted=", ".join(keys))


def _number(path: Path, key: str, value: Any, *, positive: bool) -> float:
    least = 1e-6 if positive else 0
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not least <= value <= 1e12:
        raise UserError(f"{path}: {key} is {value!r}", accepted=f"a number from {least:g} to 1e12")
    return float(value)


def _unit(path: Path, name: str, table: Any) -> Unit:
    keys = ("host", "call_us", "queued", "target", *_SPEEDS, "scopes", *_OF_MESH)
    _known(path, f"units.{name}.", table, keys)
    host = _switch(path, f"units.{name}.host", table.get("host", False))
    queued = _switch(path, f"units.{name}.queued", table.get("queued", True))
    target = table.get("target", "")
    call_us = _number(path, f"units.{name}.call_us", table.get("call_us", 0), positive=False)
    if host and call_us:
        raise UserError(f"{path}: units.{name}.call_us is {call_us}", accepted="0 for the host")
    if target and (not isinstance(target, str) or target not in TARGETS):
        accepted = ", ".join(TARGETS)
        raise UserError(f"{path}: units.{name}.target is {target!r}", accepted=accepted)
    speeds: dict[str, Any] = {
        key: _number(path, f"units.{name}.{key}", table[key], positive=True)
        for key in _SPEEDS
        if key in table
    }
    scopes = _scopes(path, f"units.{name}.scopes", table.get("scopes", {}), target)
    mesh = _mesh(path, f"units.{name}", table)
    return Unit(name, host, call_us, queued, target, **speeds, scopes=scopes, **mesh)


def _mesh(path: Path, where: str, table: Any) -> dict[str, Any]:
    given = [key for key in _OF_MESH if key in table]
    if not given:
        return {}
    elements = _count(path, f"{where}.elements", table.get("elements"), _MOST_ELEMENTS)
    for key in ("host", "target", "scopes"):
        if table.get(key):
            raise UserError(
                f"{path}: {where} states {key} beside elements", accepted=f"a mesh without {key}"
            )
    found: dict[str, Any] = {"elements": elements}
    for key, most in (("coordinators", elements), ("element_bytes", 2**40)):
        if key in table:
            found[key] = _count(path, f"{where}.{key}", table[key], most)
    for key in _EXCHANGE:
        if key in table:
            positive = key == _EXCHANGE[0]
            found[key] = _number(path, f"{where}.{key}", table[key], positive=positive)
    return found


def _scopes(path: Path, where: str, table: Any, target: str) -> dict[str, Scope]:
    """The capacity of L2 and VTCM is stated, or that of the target."""
    _known(path, f"{where}.", table, ("ddr", "l2", "vtcm"))
    if table and "ddr" not in table:
        raise UserError(
            f"{path}: {where} lacks ddr", accepted="ddr = { bytes_per_us = ... } beside the others"
        )
    found = {}
    for name, scope in table.items():
        keys = ("bytes_per_us",) if name == "ddr" else ("bytes_per_us", "bytes")
        _known(path, f"{where}.{name}.", scope, keys)
        key = f"{where}.{name}.bytes"
        speed = _number(path, f"{key}_per_us", scope.get("bytes_per_us"), positive=True)
        capacity = 0
        if name != "ddr":
            own = getattr(find_target(target), f"{name}_bytes") if target else None
            capacity = _count(path, key, scope.get("bytes", own))
        found[name] = Scope(speed, capacity)
    return found


def _count(path: Path, key: str, value: Any, most: int = 2**40) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        told = "missing" if value is None else repr(value)
        raise UserError(f"{path}: {key} is {told}", accepted=f"a whole number from 1 to {most}")
    return value


def _switch(path: Path, key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"{path}: {key} is {value!r}", accepted="true, false")
    return value


def _link(
    path: Path, place: int, table: Any, units: Mapping[str, Any]
) -> tuple[frozenset[str], Link]:
    where = f"links[{place}]."
    _known(path, where, table, ("between", "bytes_per_us", "latency_us", "dma"))
    ends = table.get("between")
    known = isinstance(ends, list) and all(isinstance(end, str) and end in units for end in ends)
    if not known or len(set(ends)) != 2:
        raise UserError(
            f"{path}: {where}between is {ends!r}", accepted=f"two of {', '.join(units)}"
        )
    speed = _number(path, f"{where}bytes_per_us", table.get("bytes_per_us"), positive=True)
    latency = _number(path, f"{where}latency_us", table.get("latency_us", 0), positive=False)
    dma = _switch(path, f"{where}dma", table.get("dma", False))
    return frozenset(ends), Link(speed, latency, dma)
