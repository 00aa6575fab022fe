"""Artifacts as rows of bytes in the store's own database: nothing else to share or to back up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Self, cast

from sqlalchemy import delete, func, select

from db.files.models import ArtifactBytesRow
from tuner.errors import UserError
from tuner.keeping.artifact_storage import ArtifactStorage, StoredFile

if TYPE_CHECKING:
    from db.sql_store import SqlStore


class DatabaseRows(ArtifactStorage):
    """Files in the table ``artifact_bytes`` of ``store``, which stays the caller's to close."""

    in_database: ClassVar[bool] = True

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    @classmethod
    def open(cls, location: str, database: object) -> Self:
        """``location`` is empty: there is one database."""
        if location:
            raise UserError(
                f"database:{location[:60]}: artifacts lie in the database that the jobs are in",
                accepted="database:",
            )
        return cls(cast("SqlStore", database))

    @property
    def place(self) -> str:
        return "database:"

    def path_of(self, key: str) -> str:
        return f"{key} in the database {self._store.place.name}"

    def size(self, key: str) -> int | None:
        wanted = select(func.length(ArtifactBytesRow.content)).where(ArtifactBytesRow.key == key)
        with self._store.reading() as session:
            return session.scalar(wanted)

    def files(self) -> Iterator[StoredFile]:
        row = ArtifactBytesRow
        wanted = select(row.key, func.length(row.content), row.written_at).order_by(row.key)
        with self._store.reading() as session:
            found = session.execute(wanted).all()
        for key, size, written_at in found:
            yield StoredFile(key, size, written_at)

    def _get(self, key: str) -> bytes | None:
        wanted = select(ArtifactBytesRow.content).where(ArtifactBytesRow.key == key)
        with self._store.reading() as session:
            return session.scalar(wanted)

    def _put(self, key: str, data: bytes) -> None:
        values = {"content": data, "written_at": time.time()}
        with self._store.writing() as session:
            if session.get_bind().dialect.name == "sqlite":
                from sqlalchemy.dialects import sqlite

                offered = sqlite.insert(ArtifactBytesRow).values(key=key, **values)
                session.execute(offered.on_conflict_do_update(index_elements=["key"], set_=values))
            else:
                from sqlalchemy.dialects import postgresql

                given = postgresql.insert(ArtifactBytesRow).values(key=key, **values)
                session.execute(given.on_conflict_do_update(index_elements=["key"], set_=values))

    def _delete(self, key: str) -> None:
        with self._store.writing() as session:
            session.execute(delete(ArtifactBytesRow).where(ArtifactBytesRow.key == key))
