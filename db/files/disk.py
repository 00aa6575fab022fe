"""Space on the disk: some is kept for what must still be written when it is full, and whether
anything can be written is found out by writing.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from sqlalchemy.dialects import postgresql, sqlite

from db.files.folder import prove_folder_writable
from db.place import Place
from db.schema import require_still_ours
from db.service_models import HeartbeatRow
from db.sql_store import SqlStore

RESERVE_BYTES = 512 << 10
"""Enough for some notes on jobs, with the log they go through."""
_NAME = "reserve"


class Reserve:
    """The reserve beside the database at ``place``, if that is a file. Processes share it."""

    def __init__(self, place: Place) -> None:
        self._path: Path | None = None if place.path is None else place.path.parent / _NAME

    def fill(self) -> None:
        """Sets the space aside, unless it is set aside already or cannot be."""
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
        """Frees the space for what is written next."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


def prove_writable(store: SqlStore) -> None:
    """Writes a row, a file beside the database and one among the artifacts, and reads the mark of
    these; ``StoreError`` says what fails, and why: that a newer hvxtune has upgraded the database,
    too. Blocks while another writer holds the database."""
    if store.place.path is not None:
        prove_folder_writable(store.place.path.parent)
    store.prove_artifacts()
    now = time.time()
    with store.writing() as session:
        require_still_ours(session.connection())
        dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
        row = dialect.insert(HeartbeatRow).values(machine=socket.gethostname()[:100], at=now)
        session.execute(row.on_conflict_do_update(index_elements=["machine"], set_={"at": now}))
