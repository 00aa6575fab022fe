"""One mark shows that all who share a database share its artifacts, too.

The first process that takes up a job puts a small file among the artifacts, and its digest into the
database. A process that cannot read it there looks in another place than the rest: another
machine's folder, say. A job run there would end, and everybody else would miss its objects.
"""

from __future__ import annotations

import os
import socket
import time

from sqlalchemy import delete, select

from db.catalogue import insert_unless_there
from db.database import Database
from db.file_models import ArtifactMarkRow
from db.files.artifacts import ArtifactFiles
from db.files.storages import ARTIFACTS_VARIABLE
from db.models import ArtifactRow
from tuner.errors import StoreError
from tuner.identity import digest_of_bytes
from tuner.keeping.artifact_storage import ArtifactStorage

MARKS = "marks/"
"""Begins the keys of marks."""
_LOOKED_AT = 8
"""Artifacts that are looked for before a mark is made for a database that has some."""


DIGEST_OF_MARK = select(ArtifactMarkRow.digest).scalar_subquery()
"""As a term of statements, which then hold only while the mark is the one that was read."""


class Mark:
    """The mark of ``database`` in ``storage``, where its artifacts lie."""

    def __init__(self, database: Database, storage: ArtifactStorage) -> None:
        self._database = database
        self._storage = storage

    def require(
        self, *, make: bool = False, last: ArtifactMarkRow | None = None
    ) -> ArtifactMarkRow | None:
        """The mark. ``StoreError`` if it cannot be read; with ``make`` one is made if it is
        missing.

        ``last`` is one that was found before: then only its file is looked for, and whether it is
        still the mark is for the caller to ask (:data:`DIGEST_OF_MARK`).
        """
        row = last or self._row() or (self._make() if make else None)
        if row is None:
            return None
        try:
            self._storage.read(row.key, row.digest)
        except StoreError as error:
            raise self._elsewhere(row, error) from None
        return row

    def adopt(self) -> None:
        """Makes the storage the place of the database's artifacts, whatever is missing there."""
        with self._database.writing() as session:
            session.execute(delete(ArtifactMarkRow))
        self._put()

    def _row(self) -> ArtifactMarkRow | None:
        with self._database.reading() as session:
            return session.scalar(select(ArtifactMarkRow))

    def _make(self) -> ArtifactMarkRow:
        """The first mark. A database that only imports have filled has artifacts and no mark: then
        only who has one of the newest may make it."""
        newest = select(ArtifactRow).order_by(ArtifactRow.created_at.desc()).limit(_LOOKED_AT)
        with self._database.reading() as session:
            known = [(row.digest, row.file_digest) for row in session.scalars(newest)]
        if known and all(self._storage.size(ArtifactFiles.key(*one)) is None for one in known):
            raise StoreError(
                f"none of the newest artifacts of the database {self._database.place.name} is in "
                f"{self._storage.place}",
                next_step=_NEXT_STEP,
            )
        return self._put()

    def _put(self) -> ArtifactMarkRow:
        written_by = f"process {os.getpid()} on {socket.gethostname()}"
        data = f"The artifacts of a database of hvxtune: {os.urandom(16).hex()}\n".encode()
        digest = digest_of_bytes(data)
        key = f"{MARKS}{digest[:32]}"
        values = {
            "id": 1,
            "key": key,
            "digest": digest,
            "place": self._storage.place,
            "written_by": written_by,
            "written_at": time.time(),
        }
        self._storage.write(key, data)
        with self._database.writing() as session:
            insert_unless_there(session, ArtifactMarkRow, values, ["id"])
            found = session.scalars(select(ArtifactMarkRow)).one()
            session.expunge(found)
        if found.digest != digest:  # another process was first
            self._storage.delete(key)
        return found

    def _elsewhere(self, row: ArtifactMarkRow, error: StoreError) -> StoreError:
        return StoreError(
            f"the artifacts of the database {self._database.place.name} are in {row.place} of "
            f"{row.written_by}, and not in {self._storage.place} here: {error.message}",
            next_step=_NEXT_STEP,
        )


_NEXT_STEP = (
    f"set {ARTIFACTS_VARIABLE} to a place that all machines reach, or mount the folder here; "
    "`hvxtune db artifacts --adopt` goes on without what is missing"
)
