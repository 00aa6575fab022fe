"""The lock file: which schedules and networks a project is built with, by digest.

TOML, a table for each name, tables and keys sorted: two branches that pin different things merge
by themselves. A network's table has one for each of its functions. It names no server and no path,
and is meant to be kept in version control.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from service.client.answers import is_digest
from tuner.errors import StoreError, UserError
from tuner.machine.whole_files import write_whole

_VERSION = 1
_OPTIONAL = ("schedule_file", "source")
_DIGESTS = ("object", "header", *_OPTIONAL, "network", "bundle", "workload")
_FUNCTIONS = "functions"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = """\
# The schedules this project is built with. Made by `hvxtune fetch`; keep it in version control.
# `hvxtune fetch --update` pins what is best now.
"""


@dataclass(frozen=True)
class Pin:
    """One schedule: its workload and target, its contract, and the SHA-256 of its files."""

    kernel: str
    params: Mapping[str, int]
    target: str
    contract: str
    """The schedule's: what it needs callers to promise."""
    schedule: str
    """Its id, on every service."""
    symbol: str
    object: str
    header: str
    cycles: int
    fidelity: str
    cache: str
    prefer: str = "robust"
    """The rule asked for, by which it was the best."""
    schedule_file: str = ""
    """SHA-256 of the ``.schedule.h``, if that was fetched."""
    source: str = ""
    """SHA-256 of the sources that say the algorithm, if they were named: of a C++ Generator, which
    nobody uploads when it changes."""

    def digest(self, kind: str) -> str:
        """SHA-256 of the ``object``, the ``header`` or the ``schedule``; empty if it is not
        known."""
        found = {"object": self.object, "header": self.header, "schedule": self.schedule_file}
        return found[kind]


@dataclass(frozen=True)
class FunctionPin:
    """The schedule of a function of a network: all that decides the bytes of a bundle with it."""

    kernel: str
    params: Mapping[str, int]
    workload: str
    """SHA-256 of the workload: of kernel and parameters, and of the kernel's version and code."""
    contract: str
    schedule: str
    symbol: str
    object: str
    """SHA-256 of its object."""
    cycles: int
    fidelity: str
    generator: str
    config: Mapping[str, int | str]
    toolchain: Mapping[str, str]
    """The versions that made and measured it."""

    def digest(self, kind: str) -> str:
        """As of :class:`Pin`: bundles need the ``object`` alone."""
        return {"object": self.object}[kind]


@dataclass(frozen=True)
class NetworkPin:
    """A network as a bundle, and all it is made from."""

    network: str
    """SHA-256 of the network as it was read, weights included."""
    target: str
    bundle: str
    """SHA-256 of the bundle's manifest, which has those of its other files."""
    made_with: Mapping[str, str]
    """The versions that made a bundle of the functions."""
    functions: tuple[FunctionPin, ...]
    """In the order of the bundle."""


Pins = Mapping[str, Pin | NetworkPin]


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Keeps other builds from changing ``lock`` meanwhile; they wait. ``UserError`` if its folder
    is missing."""
    try:
        folder = os.open(lock.absolute().parent, os.O_RDONLY)
    except OSError as error:
        raise UserError(
            f"cannot open the folder of {lock}: {error.strerror}",
            accepted="a file in an existing folder",
            next_step="choose one with --lock",
        ) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def read_pins(lock: Path) -> dict[str, Pin | NetworkPin]:
    """The pins by name, of which a missing file has none. ``UserError`` for a malformed file."""
    try:
        document = tomllib.loads(lock.read_text())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"cannot read {lock}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(lock, str(error)) from None
    if document.pop("version", None) != _VERSION:
        raise _wrong(lock, f"its version is not {_VERSION}")
    return {name: _pin(lock, name, entry) for name, entry in document.items()}


def _pin(lock: Path, name: str, entry: Any) -> Pin | NetworkPin:
    try:
        if not isinstance(entry, dict) or "network" not in entry:
            return Pin(**_values(entry, Pin, _OPTIONAL))
        values = _values(entry, NetworkPin)
        functions = values.pop(_FUNCTIONS)
        if not functions:
            raise ValueError("has no functions")
        return NetworkPin(
            **values,
            functions=tuple(FunctionPin(**_values(one, FunctionPin)) for one in functions),
        )
    except ValueError as error:
        raise _wrong(lock, f"[{name}] {error}") from None


def function_pin(values: Mapping[str, Any]) -> FunctionPin:
    """The pin of these fields, which a service gave; ``ValueError`` says what is wrong with one."""
    digests = {name: f"sha256:{values[name]}" for name in ("object", "workload")}
    return FunctionPin(**_values({**values, **digests}, FunctionPin))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_number(value: Any) -> bool:
    return type(value) is int


def _is_table(value: Any, *kinds: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(
        _is_text(key) and any(is_right(one) for is_right in kinds) for key, one in value.items()
    )


def _values(
    entry: Any, kind: type[Pin | FunctionPin | NetworkPin], optional: Collection[str] = ()
) -> dict[str, Any]:
    """The fields of a table for a pin of ``kind``; ``ValueError`` says what is wrong with it."""
    known = [field.name for field in fields(kind)]
    if not isinstance(entry, dict) or not {*known} - {*optional} <= entry.keys() <= {*known}:
        raise ValueError(f"lacks some of the fields, or has others: {', '.join(known)}")
    values = dict(entry)
    for name, value in entry.items():
        if name in _DIGESTS:
            values[name] = str(value).removeprefix("sha256:")
            if not str(value).startswith("sha256:") or not is_digest(values[name]):
                raise ValueError(f"{name} = {str(value)[:80]!r} is not sha256:DIGEST")
        elif not _IS_RIGHT.get(name, _is_text)(value):
            raise ValueError("has a field of the wrong type")
    return values


_IS_RIGHT: Mapping[str, Callable[[Any], bool]] = {
    "params": lambda value: _is_table(value, _is_number),
    "config": lambda value: _is_table(value, _is_number, _is_text),
    "toolchain": lambda value: _is_table(value, _is_text),
    "made_with": lambda value: _is_table(value, _is_text),
    "functions": lambda value: isinstance(value, list),
    "cycles": _is_number,
    "symbol": lambda value: _is_text(value) and value.isidentifier() and value.isascii(),
}
"""Of fields that are not texts, or not any text."""


def _wrong(lock: Path, why: str) -> UserError:
    return UserError(
        f"{lock} is not a lock file: {why}",
        accepted="what `hvxtune fetch` wrote",
        next_step="take it from version control again, or remove it to pin again",
    )


def write_pins(lock: Path, pins: Pins) -> None:
    """Writes the file, whole or not at all, and not if it says so already."""
    tables = [_tables(name, pins[name]) for name in sorted(pins)]
    text = "\n".join([_HEAD + f"version = {_VERSION}\n", *tables]).encode()
    try:
        if lock.exists() and lock.read_bytes() == text:
            return
        write_whole(lock, text)
    except OSError as error:
        raise StoreError(
            f"cannot write {lock}: {error.strerror}", next_step="free space or permissions there"
        ) from None


def _tables(name: str, pin: Pin | NetworkPin) -> str:
    values = asdict(pin)
    functions = values.pop(_FUNCTIONS, ())
    own = [f"[{name}]\n{_table(values)}"]
    return "\n".join([*own, *(f"[[{name}.{_FUNCTIONS}]]\n{_table(one)}" for one in functions)])


def _table(values: Mapping[str, Any]) -> str:
    given = {name: value for name, value in values.items() if value or name not in _OPTIONAL}
    texts = {name: f"sha256:{given[name]}" for name in _DIGESTS if name in given}
    given |= texts
    return "".join(f"{key} = {_value(given[key])}\n" for key in sorted(given))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in sorted(value.items())) + " }"
    # JSON's strings are TOML's, except for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _value(key)
