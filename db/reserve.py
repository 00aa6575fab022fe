"""Room that is kept on the disk of a database, for what must still be written when it is full."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from db.failure import Place

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
