"""Files that are there as a whole or not at all, also after a power cut."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tuner.paths import for_this_user, make_private

_STALE_S = 3600.0


def replace(root: Path, path: Path, data: bytes) -> None:
    """Writes ``data`` to ``path``, in ``root`` or a folder of it, which may have to be made.

    A crash leaves at most a temporary file, which a later call sweeps. Raises ``OSError``.
    """
    temporary = _temporary(root)
    try:
        with open(temporary, "xb", opener=for_this_user) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not path.parent.is_dir():
            make_private(path.parent)
            _sync_directory(root)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _temporary(root: Path) -> Path:
    """A new name in the folder of unfinished files; sweeps what killed writers left there."""
    folder = root / "unfinished"
    make_private(folder)
    for entry in folder.iterdir():
        try:
            if time.time() - entry.stat().st_mtime > _STALE_S:
                entry.unlink()
        except FileNotFoundError:
            continue  # its writer, or another sweeper, was first
    return folder / f"{os.getpid()}-{os.urandom(8).hex()}"


def _sync_directory(folder: Path) -> None:
    """Makes the names in ``folder`` survive a power cut, where the system can do that."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
