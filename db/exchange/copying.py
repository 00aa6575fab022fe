"""Copies a store into another, such as SQLite into PostgreSQL, and proves that they are the same.

Objects go first, where nothing refers to them yet; then all tables, in one transaction. What the
target has is read again before that is committed, and its digests are compared with the source's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table

from db.engine import without_time_limits
from db.exchange.rows import insert_rows, kept_tables, line_of, names_of, rows_of
from db.exchange.whole import (
    Note,
    Wanted,
    one_moment,
    referred_to,
    require_alone,
    require_empty,
)
from db.jobs.claims import NO_OWNER
from db.pipelines import shared_as
from db.schema import SCHEMA_VERSION
from db.sql_store import SqlStore
from tuner.errors import InternalError, UserError
from tuner.identity import digest_of_bytes

_ABANDONED = {name: None for name in NO_OWNER if name != "requested"}
"""A claim is of a process that writes to the source: its jobs wait in the target. A request that it
has not obeyed yet stays, and is obeyed by the next conductor."""


@dataclass(frozen=True)
class CopiedTable:
    """A table as both stores have it; ``sha256`` is that of its lines in a backup."""

    rows: int
    sha256: str


@dataclass(frozen=True)
class Copied:
    """A finished copy. ``sha256`` stands for all tables and files; ``missing`` are files that the
    source has lost."""

    schema: str
    tables: dict[str, CopiedTable]
    rows: int
    files: int
    bytes: int
    sha256: str
    missing: list[str]


def copy_store(source: SqlStore, target: SqlStore, note: Note = lambda done, total: None) -> Copied:
    """Makes the empty store ``target`` hold what ``source`` holds at this moment. Both are at the
    schema of this code, and share the state directory; their artifacts may lie in two places.

    Raises ``UserError`` if the target is not empty, or is the source, and ``StoreError`` if it is
    in use.
    """
    if source.place == target.place:
        raise UserError(f"{source.place.name} is both source and target", accepted="two databases")
    with target.reading() as session:
        require_empty(target, session.connection(), _NEXT_STEP)
    require_alone(target)
    with one_moment(source) as connection:
        return _Copier(source, target, connection, note).run()


_NEXT_STEP = "make a new database for the copy"


class _Copier:
    """One copy in progress."""

    def __init__(
        self, source: SqlStore, target: SqlStore, connection: Connection, note: Note
    ) -> None:
        self._source = source
        self._target = target
        self._connection = connection
        self._note = note
        self._done = 0
        self._total = 0

    def run(self) -> Copied:
        tables = {table.name: table for table in kept_tables(self._connection)}
        wanted = list(referred_to(self._source, self._connection, tables))
        self._total = sum(one.size for one in wanted)
        in_database = self._target.files.storage.in_database
        copied = {} if in_database else self._put_files(wanted)
        with self._target.transaction() as session:
            connection = session.connection()
            without_time_limits(connection)
            require_empty(self._target, connection, _NEXT_STEP)
            if in_database:
                copied = self._put_files(wanted)
            targets = {table.name: table for table in kept_tables(connection)}
            done = {
                name: self._put_table(table, connection, targets[name])
                for name, table in tables.items()
            }
        files = sorted(name for name, size in copied.items() if size is not None)
        stands_for = [[name, one.rows, one.sha256] for name, one in sorted(done.items())]
        return Copied(
            schema=SCHEMA_VERSION,
            tables=done,
            rows=sum(one.rows for one in done.values()),
            files=len(files),
            bytes=sum(size for size in copied.values() if size is not None),
            sha256=digest_of_bytes(line_of([stands_for, files])),
            missing=sorted(copied.keys() - set(files)),
        )

    def _put_files(self, wanted: list[Wanted]) -> dict[str, int | None]:
        """The sizes of the files by their names, ``None`` for those that the source has lost."""
        sizes: dict[str, int | None] = {}
        for one in wanted:
            data = one.whole()
            if data is not None:
                self._put_file(one.name, data)
            sizes[one.name] = None if data is None else len(data)
            self._went(one.size)
        return sizes

    def _put_file(self, name: str, data: bytes) -> None:
        """Packages are in the state directory, which both stores share."""
        storage = self._target.files.storage
        digest = digest_of_bytes(data)
        folder, _, key = name.partition("/")
        if folder == "packages":
            return
        if folder == "pipelines":
            key = shared_as(digest)
        storage.write(key, data)
        storage.read(key, digest)

    def _put_table(self, table: Table, connection: Connection, target: Table) -> CopiedTable:
        there = hashlib.sha256()
        count = insert_rows(connection, target, self._digested(table, there))
        here = hashlib.sha256(line_of(names_of(target)))
        for row in rows_of(connection, target):
            here.update(line_of(row.values()))
        if here.digest() != there.digest():
            raise InternalError(
                f"table {table.name} of {self._target.place.name} is not the one that was copied; "
                "nothing was changed there"
            )
        return CopiedTable(count, here.hexdigest())

    def _digested(self, table: Table, digest: Any) -> Iterator[dict[str, Any]]:
        digest.update(line_of(names_of(table)))
        for row in rows_of(self._connection, table):
            if table.name == "jobs":
                row |= _ABANDONED
            line = line_of(row.values())
            digest.update(line)
            self._total += len(line)
            self._went(len(line))
            yield row

    def _went(self, size: int) -> None:
        self._done += size
        self._note(self._done, self._total)
