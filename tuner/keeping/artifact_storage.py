"""Where the bytes of artifacts lie, for all who share a database: a folder or the database itself.

One file and one line in ``_REGISTRY`` of :mod:`db.files.storages` add a kind; a package adds one by
an entry point of the group ``hvxtune.artifacts``. :mod:`tuner.conformance.artifact_storages` is the
suite that each must pass.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from tuner.errors import InternalError, StoreError
from tuner.identity import digest_of_bytes

MOST_BYTES: Final = 256 << 20
"""Of one file. The largest artifact of the kernels here, listings included, has a few MB; a
database's row holds far more than this."""

_KEY = re.compile(r"[0-9a-z][0-9a-z._-]*(/[0-9a-z][0-9a-z._-]*){0,4}")
_LONGEST_KEY = 200
_PROBE_BYTES = 1024


@dataclass(frozen=True)
class StoredFile:
    """A file of a storage. ``modified_at`` is when it was last written (Unix seconds)."""

    key: str
    bytes: int
    modified_at: float


class LostFileError(StoreError):
    """A file is missing or damaged, while the place as a whole can be used."""


class ArtifactStorage(ABC):
    """Keeps files by key. A file never changes: its key is made of its digest, so all who write a
    key write the same bytes.

    Safe for several threads, and for several processes and machines at the same place. Kinds
    implement the methods with an underscore, which get valid keys and sizes. They raise
    ``StoreError`` in one line if the place cannot be used, and never show credentials: these come
    from the environment, and are neither kept nor logged.
    """

    at_hand: ClassVar[bool] = False
    """Whether :meth:`size` takes microseconds and never waits for a network."""
    in_database: ClassVar[bool] = False
    """Whether files are written and undone with the transactions of the database."""

    @classmethod
    @abstractmethod
    def open(cls, location: str, database: object) -> Self:
        """The storage at ``location``, the setting without its kind and colon. ``database`` is the
        SQL store whose artifacts it keeps. Connects to nothing yet. ``UserError`` if the location
        is not one, ``ToolchainError`` if a package is missing.
        """

    @property
    @abstractmethod
    def place(self) -> str:
        """The setting that leads here, for people: without credentials."""

    @abstractmethod
    def path_of(self, key: str) -> str:
        """The file ``key`` for people, such as ``/var/lib/hvxtune/artifacts/key``."""

    @abstractmethod
    def size(self, key: str) -> int | None:
        """The size of a file in bytes; ``None`` if it is missing."""

    @abstractmethod
    def files(self) -> Iterator[StoredFile]:
        """All files, in no order. Unfinished ones are left out."""

    @abstractmethod
    def _get(self, key: str) -> bytes | None:
        """The bytes of a file; ``None`` if it is missing."""

    @abstractmethod
    def _put(self, key: str, data: bytes) -> None:
        """Writes or replaces a file: readers see it whole, as it was or as it is, and once this
        returns it survives a power cut."""

    @abstractmethod
    def _delete(self, key: str) -> None:
        """Removes a file, if it is there."""

    def require_present(self) -> None:
        """``StoreError`` if the whole place is gone, such as a folder that is not mounted: that a
        file is missing means nothing then."""
        return

    def write(self, key: str, data: bytes) -> None:
        """Keeps ``data`` as ``key``, for good, before this returns. A file that exists is left
        alone; if it is damaged, it is replaced."""
        _require_key(key)
        if len(data) > MOST_BYTES:
            raise StoreError(
                f"{self.path_of(key)} would have {len(data)} bytes",
                accepted=f"artifacts of at most {MOST_BYTES} bytes",
                next_step="tune a smaller workload",
            )
        if self._get(key) != data:
            self._put(key, data)

    def read(self, key: str, digest: str) -> bytes:
        """The file ``key``, whose bytes have the SHA-256 ``digest``. ``LostFileError``
        names it if it is missing, or if its bytes are not what was stored."""
        _require_key(key)
        data = self._get(key)
        if data is None:
            self.require_present()
            raise LostFileError(
                f"the artifact file {self.path_of(key)} is gone",
                next_step="put it back from a backup, or tune again to recompile it",
            )
        if digest_of_bytes(data) != digest:
            raise damaged(self.path_of(key))
        return data

    def delete(self, key: str) -> None:
        """Removes a file. It may be missing."""
        _require_key(key)
        self._delete(key)

    def prove_writable(self) -> None:
        """Writes a small file, reads it, and removes it; ``StoreError`` says what fails."""
        data = os.urandom(_PROBE_BYTES)
        digest = digest_of_bytes(data)
        key = f"probes/{digest[:32]}"
        try:
            self._put(key, data)
            self.read(key, digest)
        finally:
            self._delete(key)

    def close(self) -> None:
        """Frees connections. Safe to call twice."""
        return


def damaged(path: str) -> LostFileError:
    """The error for a file whose bytes are not what was stored."""
    return LostFileError(
        f"the artifact file {path} is damaged: its digest is not the one that was stored",
        next_step="put it back from a backup, or delete it and tune again",
    )


def _require_key(key: str) -> None:
    if len(key) > _LONGEST_KEY or not _KEY.fullmatch(key) or ".." in key:
        raise InternalError(f"'{key[:80]}' is not the key of an artifact")
