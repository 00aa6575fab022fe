"""Space on the disk, some of which is kept for what must still be written when it is full."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from db.place import Place
from tuner.paths import for_this_user

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
                with open(self._path, "xb", opener=for_this_user) as file:
                    os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
            except OSError:
                self._path.unlink(missing_ok=True)
                raise

    def spend(self) -> None:
        """Frees the space for what is written next."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
