"""Files are for this user only, whatever the umask says.

Files and folders are made with their modes, so that others can open them at no moment. What
somebody has opened or copied here since is closed when a store is opened.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from db.engine import DATABASE_FILE
from tuner.paths import (
    PRIVATE_FILE_MODE,
    PRIVATE_FOLDER_MODE,
    STATE_DIR_VARIABLE,
    for_this_user,
    state_dir,
)

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_BESIDE = ("", "-wal", "-shm", "-journal")
"""The suffixes of the files of a SQLite database."""
_KEPT_FOLDERS = ("artifacts", "pipelines", "pages", "transfers")
_OURS = frozenset(
    {
        *_KEPT_FOLDERS,
        *("adb", "cache", "calibration", "client", "demo.log", "gold", "hexagon-sim"),
        "native",
        *("qemu", "references", "reserve", "timing", "token"),
    }
)
"""The entries hvxtune makes in a state directory besides a database."""


def create_database_file(path: Path) -> None:
    """Makes an empty file for SQLite to fill, unless it exists; SQLite gives its log and shared
    memory the same mode. Errors are left to SQLite, which opens it next."""
    with contextlib.suppress(OSError):
        os.close(for_this_user(str(path), os.O_RDWR | os.O_CREAT | os.O_EXCL))


def tightened(database: Path | None) -> Iterator[str]:
    """Closes this user's existing files to others; yields a line for each that was open.
    ``database`` is the SQLite file."""
    state = state_dir()
    if database is not None:
        for end in _BESIDE:
            yield from _tighten(database.with_name(database.name + end), PRIVATE_FILE_MODE)
    for name in _KEPT_FOLDERS:
        yield from _tighten(state / name, PRIVATE_FOLDER_MODE)
    if _is_ours(state, database):
        yield from _tighten(state, PRIVATE_FOLDER_MODE)


def _tighten(path: Path, mode: int) -> Iterator[str]:
    try:
        found = path.lstat()
        is_kind = stat.S_ISDIR if mode == PRIVATE_FOLDER_MODE else stat.S_ISREG
        open_to_others = is_kind(found.st_mode) and found.st_mode & _OTHERS
        if not open_to_others or found.st_uid != os.geteuid():
            return
        path.chmod(found.st_mode & mode)
    except OSError:
        return  # missing; or on a disk where modes mean nothing
    yield f"{path} was open to others (mode {stat.S_IMODE(found.st_mode):04o}), and is no longer"


def _is_ours(state: Path, database: Path | None) -> bool:
    """Whether the state directory holds only what hvxtune makes there. Otherwise it has other uses
    (``HVXTUNE_STATE_DIR=/srv``) and keeps its mode; only what is ours in it is closed."""
    if STATE_DIR_VARIABLE not in os.environ:
        return True
    kept = DATABASE_FILE if database is None else database.name
    try:
        return all(e.name in _OURS or e.name.startswith(kept) for e in os.scandir(state))
    except OSError:
        return False
