"""The bytes of artifacts on disk.

One zip file holds all files of an artifact, so any unzip program can open it. Its name is made of
the object's digest and the zip's own: a file, once written, never changes, and readers need no
lock. Deflate leaves about a sixth of a Halide object with its listings.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from db.failure import file_error
from db.files import durable as durable_files
from tuner.errors import StoreError
from tuner.identity import digest_of_bytes
from tuner.paths import STATE_DIR_VARIABLE
from tuner.records.candidate import Artifact

_NAME_DIGITS = 16

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
    """Reads and writes artifacts below one directory. Safe from several threads and processes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._root_name = str(root)

    def path(self, digest: str, file_digest: str) -> Path:
        """The path of the zip with ``file_digest`` of artifact ``digest``, whether or not it
        exists."""
        return Path(self.name(digest, file_digest))

    def name(self, digest: str, file_digest: str) -> str:
        """:meth:`path` as text: cheaper, for thousands of calls a second."""
        return f"{self._root_name}/{digest[:2]}/{digest}-{file_digest[:_NAME_DIGITS]}.zip"

    def write(self, artifact: Artifact) -> StoredArtifact:
        """Puts ``artifact`` on disk for good, before anything refers to it; replaces a damaged
        file.

        A crash leaves at most a temporary file, or a whole file that nothing refers to. Raises
        ``StoreError``.
        """
        data = _zipped(artifact.files)
        file_digest = digest_of_bytes(data)
        path = self.path(artifact.digest, file_digest)
        try:
            if not _holds(path, file_digest):
                durable_files.replace(self.root, path, data)
        except OSError as error:
            raise file_error(error, path) from error
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
        path = self.path(digest, file_digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise StoreError(
                f"the artifact file {path} is gone",
                next_step="put it back from a backup, or tune again to recompile it; "
                f"another machine's artifacts need a shared {STATE_DIR_VARIABLE}",
            ) from None
        except OSError as error:
            raise file_error(error, path) from error
        if digest_of_bytes(data) != file_digest:
            raise _damaged(path)
        artifact = Artifact(digest, symbol, _unzipped(data))
        if digest_of_bytes(artifact.object_bytes) != digest:
            raise _damaged(path)
        _require_symbol(artifact)
        return artifact


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


def _holds(path: Path, file_digest: str) -> bool:
    try:
        return digest_of_bytes(path.read_bytes()) == file_digest
    except FileNotFoundError:
        return False


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


def _damaged(path: Path) -> StoreError:
    return StoreError(
        f"the artifact file {path} is damaged: its digest is not the one that was stored",
        next_step="put it back from a backup, or delete it and tune again",
    )
