"""Room that is kept on the disk of a database, for what must still be written when it is full.

Whether anything can be stored: found out by storing something small.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.dialects import postgresql, sqlite

from db.failure import Place, file_error
from db.service_models import HeartbeatRow

if TYPE_CHECKING:
    from db.sql_store import SqlStore

RESERVE_BYTES = 512 << 10
"""Enough for some notes on jobs, with the log they go through."""
_NAME = "reserve"


class Reserve:
    """The reserve of the database at ``place``, if that is a file here. Processes share it."""

    def __init__(self, place: Place) -> None:
        self._path: Path | None = None if place.path is None else place.path.parent / _NAME

    def fill(self) -> None:
        """Sets the room aside, unless it is or cannot be."""
        if self._path is None or self._path.exists():
            return
        with suppress(OSError):
            try:
                with self._path.open("xb") as file:
                    os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
            except OSError:
                self._path.unlink(missing_ok=True)
                raise

    def spend(self) -> None:
        """Gives the room back to the disk, for what is written next."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


_PROOF_BYTES = 64 << 10
"""A full disk still takes what fits into blocks that a file has already."""


def prove_writable(store: SqlStore) -> None:
    """Writes a row, and a file where the database and where artifacts lie; ``StoreError`` says
    what cannot be written, and why. Blocks, as long as another writer keeps the database."""
    # Not made here if it is missing: then it may not be mounted.
    root = store.files.root
    folders = {root if root.exists() else root.parent}
    if store.place.path is not None:
        folders.add(store.place.path.parent)
    for folder in sorted(folders):
        _write_file(folder)
    now = time.time()
    with store.writing() as session:
        dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
        row = dialect.insert(HeartbeatRow).values(machine=socket.gethostname()[:100], at=now)
        session.execute(row.on_conflict_do_update(index_elements=["machine"], set_={"at": now}))


def _write_file(folder: Path) -> None:
    path = folder / f".writable-{os.getpid()}"
    try:
        try:
            path.write_bytes(os.urandom(_PROOF_BYTES))
        finally:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise file_error(error, path) from error
