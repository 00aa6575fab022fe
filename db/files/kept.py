"""Artifacts: their rows in the database, their bytes in a storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, select

from db.database import Database, Part
from db.file_models import ArtifactMarkRow
from db.files.artifacts import ArtifactFiles, StoredArtifact
from db.files.mark import Mark
from db.models import ArtifactRow
from tuner.errors import NotStoredError
from tuner.keeping.artifact_storage import ArtifactStorage
from tuner.keeping.store import require_named_by_object
from tuner.records.candidate import Artifact


class Artifacts(Part):
    """The artifacts of a database, whose bytes ``storage`` keeps."""

    def __init__(self, database: Database, storage: ArtifactStorage) -> None:
        super().__init__(database)
        self.files = ArtifactFiles(storage)
        self.mark = Mark(database, storage)

    def find(self, digest: str) -> Artifact:
        with self._database.reading() as session:
            row = session.get(ArtifactRow, digest)
        if row is None:
            raise NotStoredError(
                f"no artifact '{digest}'", accepted="the digest of a stored object"
            )
        return self.files.read(row.digest, row.symbol, row.file_digest)

    def write_new(self, artifacts: Sequence[Artifact]) -> dict[str, StoredArtifact]:
        """Writes the files of artifacts that have no row yet, before the transaction that adds
        their rows begins."""
        if not artifacts:
            return {}
        digests = [artifact.digest for artifact in artifacts]
        with self._database.reading() as session:
            known = set(session.connection().scalars(_KNOWN, {"digests": digests}))
        written = {}
        for artifact in artifacts:
            require_named_by_object(artifact)
            if artifact.digest not in known:
                written[artifact.digest] = self.files.write(artifact)
        return written

    def rows_and_marks(self) -> tuple[Sequence[Any], set[str]]:
        """Digest, digest of the file and stored bytes of each artifact, and the keys of marks."""
        with self._database.reading() as session:
            rows = session.execute(
                select(ArtifactRow.digest, ArtifactRow.file_digest, ArtifactRow.stored_bytes)
            ).all()
            return rows, set(session.scalars(select(ArtifactMarkRow.key)))

    def require_here(self) -> None:
        """``StoreError`` unless the artifacts of this database, if there are any, are where this
        process looks for them (:mod:`db.files.mark`)."""
        self.mark.require()

    def mark_here(self) -> None:
        """The same; marks the place if nothing does yet."""
        self.mark.require(make=True)

    def prove_writable(self) -> None:
        """Writes and reads a file among the artifacts; otherwise as :meth:`require_here`."""
        self.files.storage.prove_writable()
        self.require_here()


_KNOWN = select(ArtifactRow.digest).where(
    ArtifactRow.digest.in_(bindparam("digests", expanding=True))
)
