"""Artifacts in a folder: of this machine, or one that machines share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Self

from db.failure import file_error
from db.files import durable as durable_files
from tuner.errors import StoreError
from tuner.keeping.artifact_storage import ArtifactStorage, StoredFile
from tuner.paths import state_dir

_UNFINISHED = "unfinished"
_PROOF_BYTES = 64 << 10
"""More than fits into blocks that files have already, which a full disk still takes."""


class LocalFolder(ArtifactStorage):
    """Files below ``root``, which is made when the first is written."""

    at_hand: ClassVar[bool] = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self._root_name = str(root)

    @classmethod
    def open(cls, location: str, database: object) -> Self:
        """``location`` is a path; empty for ``artifacts`` in the state directory."""
        if not location:
            return cls(state_dir() / "artifacts")
        return cls(Path(location).expanduser().absolute())

    @property
    def place(self) -> str:
        return f"folder:{self._root_name}"

    def path_of(self, key: str) -> str:
        return f"{self._root_name}/{key}"

    def size(self, key: str) -> int | None:
        try:
            return os.stat(f"{self._root_name}/{key}").st_size  # Path takes five times as long
        except FileNotFoundError:
            return None
        except OSError as error:
            raise file_error(error, self.root / key) from error

    def files(self) -> Iterator[StoredFile]:
        for folder, _, names in os.walk(self.root, onerror=_refuse):
            inside = Path(folder).relative_to(self.root)
            if inside.parts[:1] == (_UNFINISHED,):
                continue
            for name in names:
                try:
                    found = os.stat(f"{folder}/{name}")
                except FileNotFoundError:
                    continue  # deleted since
                yield StoredFile((inside / name).as_posix(), found.st_size, found.st_mtime)

    def require_present(self) -> None:
        if not self.root.is_dir():
            raise StoreError(
                f"the folder of artifacts, {self.root}, is gone",
                next_step="mount it, or put it back from a backup",
            )

    def prove_writable(self) -> None:
        # If missing it is not made here: it may not be mounted.
        places = (self.root, *self.root.parents)
        prove_folder_writable(next(place for place in places if place.exists()))

    def _get(self, key: str) -> bytes | None:
        path = self.root / key
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise file_error(error, path) from error

    def _put(self, key: str, data: bytes) -> None:
        path = self.root / key
        try:
            durable_files.replace(self.root, path, data)
        except OSError as error:
            raise file_error(error, path) from error

    def _delete(self, key: str) -> None:
        path = self.root / key
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise file_error(error, path) from error


def prove_folder_writable(folder: Path) -> None:
    """Writes a file in ``folder`` and removes it; ``StoreError`` says why that fails."""
    path = folder / f".writable-{os.getpid()}"
    try:
        try:
            path.write_bytes(os.urandom(_PROOF_BYTES))
        finally:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise file_error(error, path) from error


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise file_error(error, Path(error.filename or ".")) from error
