"""Artifacts as rows of bytes in the store's own database: nothing else to share or to back up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import ClassVar, Self, cast

from sqlalchemy import delete, func, select, true

from db.database import Database
from db.file_models import ArtifactBytesRow
from db.statements import upsert
from tuner.errors import UserError
from tuner.keeping.artifact_storage import ArtifactStorage, StoredFile


class DatabaseRows(ArtifactStorage):
    """Files in the table ``artifact_bytes`` of ``database``, which stays the caller's to close."""

    in_database: ClassVar[bool] = True

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, location: str, database: object) -> Self:
        """``location`` is empty: there is one database."""
        if location:
            raise UserError(
                f"database:{location[:60]}: artifacts lie in the database that the jobs are in",
                accepted="database:",
            )
        return cls(cast(Database, database))

    @property
    def place(self) -> str:
        return "database:"

    def path_of(self, key: str) -> str:
        return f"{key} in the database {self._database.place.name}"

    def size(self, key: str) -> int | None:
        wanted = select(func.length(ArtifactBytesRow.content)).where(ArtifactBytesRow.key == key)
        with self._database.reading() as session:
            return session.scalar(wanted)

    def files(self) -> Iterator[StoredFile]:
        row = ArtifactBytesRow
        wanted = select(row.key, func.length(row.content), row.written_at).order_by(row.key)
        with self._database.reading() as session:
            found = session.execute(wanted).all()
        for key, size, written_at in found:
            yield StoredFile(key, size, written_at)

    def _get(self, key: str) -> bytes | None:
        wanted = select(ArtifactBytesRow.content).where(ArtifactBytesRow.key == key)
        with self._database.reading() as session:
            return session.scalar(wanted)

    def _put(self, key: str, data: bytes) -> None:
        values = {"key": key, "content": data, "written_at": time.time()}
        with self._database.writing() as session:
            connection = session.connection()
            put = upsert(connection.dialect.name, ArtifactBytesRow, ["key"], where=true())
            connection.execute(put, values)

    def _delete(self, key: str) -> None:
        with self._database.writing() as session:
            session.execute(delete(ArtifactBytesRow).where(ArtifactBytesRow.key == key))
