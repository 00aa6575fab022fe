"""An allow-list of files by landlock; also no TCP, and where the kernel can, no signals to others.

All rights that the kernel's version of landlock knows are handled, so whatever no rule allows is
refused (linux/landlock.h; versions as in the kernel's userspace-api/landlock.rst). What it cannot
refuse are questions: whether a file of some name exists, and its size.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every machine
_VERSION_FLAG = 1
_BELOW_A_PATH = 1
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""The number of rights over files in each version; 16 from version 5 on."""
_TCP = 0b11
"""Bind and connect: from version 4 on."""
_SCOPES = 0b11
"""Abstract sockets and signals to others: from version 6 on."""

_EXECUTE, _WRITE, READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FOLDER, _REMOVE, _MAKE_FOLDER, _MAKE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MOVE, _TRUNCATE = 1 << 13, 1 << 14
RUN = _EXECUTE | READ | _LIST
USE = READ | _WRITE
WORK = (
    USE | _LIST | _REMOVE_FOLDER | _REMOVE | _MAKE_FOLDER | _MAKE | _MOVE | _TRUNCATE
)  # no links, sockets, pipes, devices
_OF_FILES = _EXECUTE | USE | _TRUNCATE
"""Rights that mean something for a file."""

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """That of the kernel's landlock; 0 without."""
    found: int = _libc.syscall(_CREATE, None, 0, _VERSION_FLAG)
    return max(0, found)


@contextmanager
def ruleset(allowed: Iterable[tuple[Path, int]]) -> Iterator[int | None]:
    """A descriptor of rules that allow the rights over each path and what lies below; ``None``
    without landlock. Paths that cannot be reached are left out."""
    known = version()
    if known < 1:
        yield None
        return
    rights = (1 << _FILE_RIGHTS.get(known, 16)) - 1
    handled = struct.pack("<3Q", rights, _TCP if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    known_bytes = 24 if known >= 6 else 16 if known >= 4 else 8
    made: int = _libc.syscall(_CREATE, handled, known_bytes, 0)
    if made < 0:
        yield None
        return
    try:
        for path, wanted in allowed:
            _allow(made, path, wanted & rights)
        yield made
    finally:
        os.close(made)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH)
    except (FileNotFoundError, PermissionError):
        return
    try:
        if not path.is_dir():
            rights &= _OF_FILES
        rule = struct.pack("<Qi", rights, place)  # struct landlock_path_beneath_attr
        if _libc.syscall(_ADD, ruleset, _BELOW_A_PATH, rule, 0) != 0:
            raise OSError(ctypes.get_errno(), f"landlock takes no rule for {path}")
    finally:
        os.close(place)


def restrict(ruleset: int) -> bool:
    """Holds the calling thread, and what it starts, to the rules. Cannot be undone."""
    return int(_libc.syscall(_RESTRICT, ruleset, 0)) == 0
