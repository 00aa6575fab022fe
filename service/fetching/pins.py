"""The lock file: which schedules a project is built with, by digest.

TOML, a table for each name, tables and keys sorted: two branches that pin different things merge
by themselves. It names no server and no path, and is meant to be kept in version control.
"""

from __future__ import annotations

import fcntl
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from service.client.answers import is_digest
from tuner.errors import StoreError, UserError
from tuner.machine.whole_files import write_whole

_VERSION = 1
_DIGESTS = ("object", "header", "schedule_file", "source")
_OPTIONAL = _DIGESTS[2:]
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


def read_pins(lock: Path) -> dict[str, Pin]:
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


def _pin(lock: Path, name: str, entry: Any) -> Pin:
    known = {field.name: field.type for field in fields(Pin)}
    if not isinstance(entry, dict) or not known.keys() - {*_OPTIONAL} <= entry.keys() <= {*known}:
        raise _wrong(lock, f"[{name}] lacks some of the fields, or has others: {', '.join(known)}")
    values = dict(entry)
    for kind in [kind for kind in _DIGESTS if kind in values]:
        text = str(values[kind])
        values[kind] = text.removeprefix("sha256:")
        if not text.startswith("sha256:") or not is_digest(values[kind]):
            raise _wrong(lock, f"[{name}] {kind} = {text[:80]!r} is not sha256:DIGEST")
    texts = entry.keys() - {"params", "cycles"}
    if not (
        all(isinstance(values[text], str) for text in texts)
        and isinstance(values["cycles"], int)
        and isinstance(values["params"], dict)
        and all(isinstance(value, int) for value in values["params"].values())
        and values["symbol"].isidentifier()
        and values["symbol"].isascii()
    ):
        raise _wrong(lock, f"[{name}] has a field of the wrong type")
    return Pin(**values)


def _wrong(lock: Path, why: str) -> UserError:
    return UserError(
        f"{lock} is not a lock file: {why}",
        accepted="what `hvxtune fetch` wrote",
        next_step="take it from version control again, or remove it to pin again",
    )


def write_pins(lock: Path, pins: Mapping[str, Pin]) -> None:
    """Writes the file, whole or not at all, and not if it says so already."""
    tables = [f"[{name}]\n{_table(pins[name])}" for name in sorted(pins)]
    text = "\n".join([_HEAD + f"version = {_VERSION}\n", *tables]).encode()
    try:
        if lock.exists() and lock.read_bytes() == text:
            return
        write_whole(lock, text)
    except OSError as error:
        raise StoreError(
            f"cannot write {lock}: {error.strerror}", next_step="free space or permissions there"
        ) from None


def _table(pin: Pin) -> str:
    values = asdict(pin)
    values = {name: value for name, value in values.items() if value or name not in _OPTIONAL}
    for kind in [kind for kind in _DIGESTS if kind in values]:
        values[kind] = f"sha256:{values[kind]}"
    return "".join(f"{key} = {_value(values[key])}\n" for key in sorted(values))


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_value(v)}" for k, v in sorted(value.items())) + " }"
    # JSON's strings are TOML's, except for DEL, which none of these texts contains.
    return json.dumps(value, ensure_ascii=False)
