"""The farm file: which devices there are, in TOML. Every mistake in it is told by its place."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tuner.errors import UserError
from tuner.measure.device import (
    Device,
    DeviceSettings,
    Limits,
    Member,
    device_kinds,
    find_kind,
)
from tuner.paths import of_user
from tuner.problem.target import TARGETS

FARM_FILE_VARIABLE = "HVXTUNE_FARM_FILE"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,58}")
_WORDS = {
    str: "a text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    tuple[str, ...]: 'a list of texts, such as ["lab-2"]',
}
"""Types of keys, for people."""
_T = TypeVar("_T")


class NoFarmError(UserError):
    """This machine has no farm file."""


@dataclass(frozen=True)
class Farm:
    """The devices of this machine's farm file, and the limits that hold for all of them."""

    members: tuple[Member, ...]
    limits: Limits = field(default_factory=Limits)

    def selected(self, on: str) -> tuple[Member, ...]:
        """Those that have every tag in ``on`` (commas between; empty: all). ``UserError`` if no
        device has."""
        wanted = [tag.strip() for tag in on.split(",") if tag.strip()]
        found = tuple(m for m in self.members if all(tag in m.tags for tag in wanted))
        if found:
            return found
        known = sorted({tag for member in self.members for tag in member.tags})
        raise UserError(
            f"no device of the farm is tagged '{on}'",
            accepted=", ".join(known[:40]),
            next_step="`hvxtune farm list` shows devices and tags",
        )


@dataclass(frozen=True)
class Key:
    """One key of a table of the farm file, for people. ``default`` is ``None`` where it must be
    given."""

    name: str
    type: str
    default: Any
    help: str


def keys_of(shape: type[DeviceSettings] | type[Limits]) -> list[Key]:
    """The keys of a table, in the order of its fields."""
    hints = typing.get_type_hints(shape)
    return [
        Key(
            one.name,
            _WORDS[hints[one.name]].partition(",")[0],
            None if one.default is dataclasses.MISSING else one.default,
            one.metadata["help"],
        )
        for one in dataclasses.fields(shape)
    ]


def farm_file() -> Path:
    """Where the farm file is, or would be."""
    given = os.environ.get(FARM_FILE_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    return of_user("XDG_CONFIG_HOME", ".config") / "farm.toml"


def read_farm(path: Path | None = None) -> Farm:
    """The farm of ``path``, by default :func:`farm_file`. ``NoFarmError`` without such a file,
    ``UserError`` for the first thing in it that is wrong."""
    path = path or farm_file()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NoFarmError(
            f"there is no farm file {path}",
            accepted="a TOML file that names the devices",
            next_step=f"write one, as docs/devices.md shows, or set {FARM_FILE_VARIABLE}",
        ) from None
    except OSError as error:
        raise UserError(f"the farm file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"the farm file {path} is not TOML: {error}") from None
    return _Reader(path).farm(tables)


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path

    def farm(self, tables: Mapping[str, Any]) -> Farm:
        kinds = device_kinds()
        self._known("", tables, ["limits", *kinds])
        limits = self._fields("limits", tables.get("limits", {}), Limits)
        members: list[Member] = []
        for name in (name for name in kinds if name in tables):
            kind = find_kind(name)
            for index, table in enumerate(self._list(name, tables[name])):
                place = f"{name} {index + 1}"
                settings = self._fields(place, table, kind.Settings)
                self._check(place, settings)
                members += members_of(kind, settings)
        names = [member.name for member in members]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise self._wrong(f"the name '{twice}' is given twice", "a name for each device")
        owners: dict[str, str] = {}
        for settings in (member.settings for member in members if member.settings.hardware):
            other = owners.setdefault(settings.hardware, settings.name)
            if other != settings.name:
                raise self._wrong(
                    f"'{other}' and '{settings.name}' are both {settings.hardware}",
                    "one table for each: two would measure at the same time",
                    "remove one of the two; tags give a device more names",
                )
        if not members:
            raise self._wrong("it names no device", f"a table [[{']], [['.join(kinds)}]]")
        return Farm(tuple(members), limits)

    def _list(self, kind: str, value: Any) -> Sequence[Any]:
        if isinstance(value, list):
            return value
        raise self._wrong(f"[{kind}] is one table", f"[[{kind}]], once per device")

    def _known(self, place: str, table: Mapping[str, Any], accepted: Sequence[str]) -> None:
        for key in table:
            if key not in accepted:
                near = difflib.get_close_matches(key, accepted, n=1)
                hint = f"did you mean {near[0]}?" if near else ""
                where = f"{place}: " if place else ""
                raise self._wrong(f"{where}unknown key '{key}'", ", ".join(accepted), hint)

    def _fields(self, place: str, table: Any, shape: type[_T]) -> _T:
        if not isinstance(table, dict):
            raise self._wrong(f"{place} is not a table", "keys and values")
        fields = {f.name: f for f in dataclasses.fields(shape)}  # type: ignore[arg-type]
        hints = typing.get_type_hints(shape)
        self._known(place, table, list(fields))
        values = {}
        for name, value in table.items():
            values[name] = self._value(f"{place}: {name}", value, hints[name])
            self._bounds(f"{place}: {name}", values[name], fields[name].metadata)
        for name, known in fields.items():
            if name not in values and known.default is dataclasses.MISSING:
                raise self._wrong(f"{place} has no {name}", f"{name} = ...")
        return shape(**values)

    def _value(self, place: str, value: Any, hint: Any) -> Any:
        if hint is float and type(value) is int:
            return float(value)
        if type(value) is hint:
            return value
        texts = hint == tuple[str, ...] and isinstance(value, list)
        if texts and all(isinstance(one, str) for one in value):
            return tuple(value)
        raise self._wrong(f"{place} = {value!r:.60}", _WORDS[hint])

    def _bounds(self, place: str, value: Any, metadata: Mapping[str, Any]) -> None:
        if "least" in metadata and not metadata["least"] <= value <= metadata["most"]:
            accepted = f"{metadata['least']:g} to {metadata['most']:g}"
            raise self._wrong(f"{place} = {value}", accepted)

    def _check(self, place: str, settings: DeviceSettings) -> None:
        for what, text in (("name", settings.name), *(("tags", tag) for tag in settings.tags)):
            if not _NAME.fullmatch(text):
                raise self._wrong(
                    f"{place}: {what} '{text:.60}'", "up to 59 letters, digits, '.', '_', '-'"
                )
        archs = sorted({target.arch for target in TARGETS.values()})
        if settings.arch not in archs:
            raise self._wrong(f"{place}: arch '{settings.arch:.60}'", ", ".join(archs))
        found = settings.conflict()
        if found is not None:
            raise self._wrong(f"{place}: {found[0]}", found[1])

    def _wrong(self, what: str, accepted: str, next_step: str = "") -> UserError:
        return UserError(
            f"the farm file {self._path}: {what}", accepted=accepted, next_step=next_step
        )


def members_of(kind: type[Device], settings: DeviceSettings) -> list[Member]:
    """The devices that one table of a farm file stands for: one a slot."""
    slots = settings.slots
    names = (
        [f"{settings.name}-{slot}" for slot in range(1, slots + 1)]
        if slots > 1
        else [settings.name]
    )
    common = {kind.kind, *settings.implied_tags, *settings.tags}
    return [Member(name, kind, settings, tuple(sorted({*common, name}))) for name in names]
