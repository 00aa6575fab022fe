"""The bytes of artifacts, wherever they lie.

One zip file holds all files of an artifact, so any unzip program can open it. Its name is made of
the object's digest and the zip's own: a file, once written, never changes, and readers need no
lock. Deflate leaves about a sixth of a Halide object with its listings.
"""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.errors import StoreError
from tuner.identity import digest_of_bytes
from tuner.keeping.artifact_storage import ArtifactStorage, damaged
from tuner.records.candidate import Artifact

_NAME_DIGITS = 16
_BELIEVED_S = 60.0
_KEPT_SIZES = 65_536

LOST_FILE = "the file of its artifact"
"""Begins reasons for quarantine that concern the file and not the schedule. Such a quarantine ends
when the same schedule is offered again, with the file."""


@dataclass(frozen=True)
class StoredArtifact:
    """An artifact as the database records it.

    ``files`` maps its kinds to the SHA-256 of their bytes, ``file_digest`` is that of the zip.
    ``object_bytes`` and ``stored_bytes`` are the sizes of the object and of the zip.
    """

    digest: str
    symbol: str
    files: Mapping[str, str] = field(hash=False)
    file_digest: str
    object_bytes: int
    stored_bytes: int


class ArtifactFiles:
    """Reads and writes artifacts in one storage. Safe from several threads and processes."""

    def __init__(self, storage: ArtifactStorage) -> None:
        self.storage = storage
        self._sizes: dict[str, tuple[int, float]] = {}

    @staticmethod
    def key(digest: str, file_digest: str) -> str:
        """The key of the zip with ``file_digest`` of artifact ``digest``, in any storage."""
        return f"{digest[:2]}/{digest}-{file_digest[:_NAME_DIGITS]}.zip"

    def write(self, artifact: Artifact) -> StoredArtifact:
        """Keeps ``artifact`` for good, before anything refers to it; replaces a damaged file.

        A crash leaves at most an unfinished file, or a whole one that nothing refers to. Raises
        ``StoreError``.
        """
        data = _zipped(artifact.files)
        file_digest = digest_of_bytes(data)
        self.storage.write(self.key(artifact.digest, file_digest), data)
        return StoredArtifact(
            digest=artifact.digest,
            symbol=artifact.symbol,
            files={kind: digest_of_bytes(artifact.files[kind]) for kind in sorted(artifact.files)},
            file_digest=file_digest,
            object_bytes=len(artifact.object_bytes),
            stored_bytes=len(data),
        )

    def read(self, digest: str, symbol: str, file_digest: str) -> Artifact:
        """The artifact as it was written; ``StoreError`` names the file if it is damaged."""
        key = self.key(digest, file_digest)
        artifact = Artifact(digest, symbol, _unzipped(self.storage.read(key, file_digest)))
        if digest_of_bytes(artifact.object_bytes) != digest:
            raise damaged(self.storage.path_of(key))
        _require_symbol(artifact)
        return artifact

    def size(self, digest: str, file_digest: str) -> int | None:
        """The size of the zip; ``None`` if it is missing. Where that has to be asked for elsewhere
        it is believed for :data:`_BELIEVED_S`: each of thousands of best-queries wants it, and the
        bytes themselves are checked whenever they are handed out."""
        key = self.key(digest, file_digest)
        if self.storage.at_hand:
            return self.storage.size(key)
        now = time.monotonic()
        size, until = self._sizes.get(key, (0, 0.0))
        if now < until:
            return size
        found = self.storage.size(key)
        if found is not None:
            if len(self._sizes) >= _KEPT_SIZES:
                self._sizes.clear()
            self._sizes[key] = (found, now + _BELIEVED_S)
        return found


def defines(content: bytes, symbol: bytes) -> bool:
    """Whether an object defines ``symbol``, which names kernel, parameters and contract: without
    it, the object is that of another schedule."""
    # Names in an object's string table end with a zero byte.
    return symbol + b"\0" in content


def _require_symbol(artifact: Artifact) -> None:
    if not defines(artifact.object_bytes, artifact.symbol.encode()):
        raise StoreError(
            f"the object {artifact.digest} does not define {artifact.symbol}: it belongs to "
            "another schedule",
            next_step="tune again, or import it again",
        )


def _zipped(files: Mapping[str, bytes]) -> bytes:
    """The same bytes for the same files: ``ZipInfo`` has a fixed date."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for kind in sorted(files):
            archive.writestr(zipfile.ZipInfo(kind), files[kind], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {kind: archive.read(kind) for kind in archive.namelist()}
