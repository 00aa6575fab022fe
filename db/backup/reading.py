"""Restores a backup: all of it, or nothing.

First the whole file is read and every digest compared. Then files are put in place, where nothing
refers to them yet, and last all tables change in one transaction. If it ends before that (Ctrl-C, a
full disk, kill -9), the store is as it was, and a second run finds the files already written.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

from sqlalchemy import Connection, MetaData, func, select, text
from sqlalchemy.exc import DBAPIError

from db.backup.layout import (
    CHUNK_BYTES,
    MANIFEST,
    MOST_MANIFEST_BYTES,
    Hashing,
    Manifest,
    Member,
    Note,
    damaged,
    read_manifest,
    require_known,
    table_member,
)
from db.backup.rows import kept_tables, read_rows
from db.engine import without_time_limits
from db.failure import file_error, users_of
from db.files import durable as durable_files
from db.schema import SCHEMA_VERSION, upgrade
from db.sql_store import SqlStore
from tuner.errors import StoreError, UserError
from tuner.identity import digest_of_bytes
from tuner.paths import state_dir

_FORCE = "--force replaces all of it; make a backup of it first"
_TABLES_SHOWN = ("jobs", "schedules", "tokens", "pipelines")
_Done = Callable[[int], object]
"""Receives the bytes done."""
_READ_ERRORS = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, OverflowError)


@dataclass(frozen=True)
class Restored:
    """A restored backup. ``missing`` are files that the store had lost before it was made."""

    rows: int
    files: int
    made_at: float
    schema: str
    manifest_sha256: str
    missing: list[str]


@dataclass(frozen=True)
class _Checked:
    """A backup found whole: its manifest, and the offset of each member in the file."""

    manifest: Manifest
    sha256: str
    starts: dict[str, int]


def restore_backup(
    store: SqlStore, place: Path, *, force: bool = False, note: Note = lambda done, total: None
) -> Restored:
    """Makes ``store`` what it was when the backup in the file ``place`` was made.

    A store that holds something is replaced only with ``force``. Raises ``UserError`` for a file
    that is not a whole backup or has another schema, ``StoreError`` if the store is in use.
    """
    try:
        file = place.open("rb")
    except OSError as error:
        raise UserError(
            f"cannot read {place}: {error.strerror}", accepted="what `hvxtune db backup` wrote"
        ) from None
    with file:
        with store.reading() as session:
            if not force:
                require_empty(store, session.connection(), _FORCE)
        size = place.stat().st_size
        with _reading():
            checked = _check(file, lambda done: note(done, 2 * size))
        require_alone(store)
        put = partial(_put_files, store, file, checked, lambda done: note(size + done, 2 * size))
        in_database = store.files.storage.in_database
        put(artifacts=not in_database)
        with store.transaction() as session:
            without_time_limits(session.connection())
            rows = _replace_tables(store, file, checked, force=force)
            if in_database:  # their table was dropped, too
                put(artifacts=True)
        note(2 * size, 2 * size)
    manifest = checked.manifest
    return Restored(
        rows=rows,
        files=len(manifest.members) - len(manifest.tables),
        made_at=manifest.made_at,
        schema=manifest.schema,
        manifest_sha256=checked.sha256,
        missing=list(manifest.missing),
    )


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except _READ_ERRORS as error:
        raise damaged(str(error) or type(error).__name__) from None


def _check(file: IO[bytes], note: _Done) -> _Checked:
    """Reads all of it, and trusts nothing else."""
    found: dict[str, Member] = {}
    starts: dict[str, int] = {}
    manifest = b""
    with tarfile.open(fileobj=file, mode="r:") as archive:
        for member in archive:
            require_known(member.name)
            if not member.isreg() or member.name in found or manifest:
                raise damaged(f"{member.name} is not a file, appears twice, or follows {MANIFEST}")
            hashing = Hashing(cast("IO[bytes]", archive.extractfile(member)))
            if member.name == MANIFEST:
                manifest = hashing.read(MOST_MANIFEST_BYTES)
                continue
            while hashing.read(CHUNK_BYTES):
                note(file.tell())
            require_known(member.name, hashing.member.sha256)
            found[member.name], starts[member.name] = hashing.member, member.offset_data
    if not manifest:
        raise damaged(f"it has no {MANIFEST}")
    stated = read_manifest(manifest)
    for name in sorted(stated.members.keys() | found.keys()):
        if name not in found:
            raise damaged(f"{name} is missing")
        if stated.members.get(name) != found[name]:
            raise damaged(f"{name} differs from {MANIFEST}: it has another SHA-256")
    _require_schema(stated)
    return _Checked(stated, digest_of_bytes(manifest), starts)


def _require_schema(manifest: Manifest) -> None:
    if manifest.schema != SCHEMA_VERSION:
        raise UserError(
            f"the backup was made by another hvxtune, {manifest.made_by} (its schema is "
            f"{manifest.schema})",
            accepted=f"schema {SCHEMA_VERSION}",
            next_step="restore it with the hvxtune that made it; nothing was changed",
        )


def require_alone(store: SqlStore) -> None:
    """Nobody else may use the database: a service caches much of what it reads there."""
    users = ", ".join(f"process {pid}" for pid in users_of(store.place.path or Path()))
    with store.reading() as session:
        connection = session.connection()
        if connection.dialect.name == "postgresql":
            others = connection.scalar(
                text(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
            )
            users = f"{others} other connections" if others else ""
        if users:
            raise StoreError(
                f"the database {store.place.name} is in use ({users})",
                next_step="end services and commands that use it, and run this again",
            )


def require_empty(store: SqlStore, connection: Connection, next_step: str) -> None:
    """``UserError`` if there is any row that a backup keeps."""
    counts = {
        table.name: connection.scalar(select(func.count()).select_from(table)) or 0
        for table in kept_tables(connection)
    }
    if any(counts.values()):
        shown = ", ".join(f"{counts.get(name, 0)} {name}" for name in _TABLES_SHOWN)
        raise UserError(
            f"the database {store.place.name} is not empty ({shown})",
            accepted="an empty one, such as in a new HVXTUNE_STATE_DIR",
            next_step=next_step,
        )


def _put_files(
    store: SqlStore, file: IO[bytes], checked: _Checked, note: _Done, *, artifacts: bool
) -> None:
    """Writes the files that are missing, with or without the ``artifacts``."""
    tables = {table_member(name) for name in checked.manifest.tables}
    for name, member in checked.manifest.members.items():
        if name in tables:
            continue
        folder, _, key = name.partition("/")
        if folder == "artifacts" and not artifacts:
            continue
        file.seek(checked.starts[name])
        data = file.read(member.bytes)
        if digest_of_bytes(data) != member.sha256:
            raise damaged(f"{name} changed while it was read")
        if folder == "artifacts":
            store.files.storage.write(key, data)
        else:
            _put_upload(state_dir() / folder, key, data)
        note(file.tell())


def _put_upload(root: Path, key: str, data: bytes) -> None:
    path = root / key
    try:
        if not (path.is_file() and path.read_bytes() == data):
            durable_files.replace(root, path, data)
    except OSError as error:
        raise file_error(error, path) from error


def _replace_tables(store: SqlStore, file: IO[bytes], checked: _Checked, *, force: bool) -> int:
    """Replaces everything in the database by the tables of the backup, in one transaction; returns
    the number of rows."""
    manifest = checked.manifest
    rows = 0
    with store.transaction() as session:
        connection = session.connection()
        if not force:
            require_empty(store, connection, _FORCE)
        present = MetaData()
        present.reflect(connection)
        present.drop_all(connection)
        upgrade(connection)
        tables = {table.name: table for table in kept_tables(connection)}
        if tables.keys() != manifest.tables.keys():
            odd = min(tables.keys() ^ manifest.tables.keys())
            raise damaged(f"table {odd} does not go with schema {manifest.schema}")
        for name, table in tables.items():
            member = manifest.members[table_member(name)]
            file.seek(checked.starts[table_member(name)])
            packed = cast("IO[bytes]", _Part(file, member.bytes))
            with _filling(name), gzip.GzipFile(mode="rb", fileobj=packed) as lines:
                count = read_rows(connection, table, lines)
            if count != manifest.tables[name]:
                raise damaged(f"table {name} has {count} rows, not {manifest.tables[name]}")
            rows += count
    return rows


@contextmanager
def _filling(table: str) -> Iterator[None]:
    """Rows that the database refuses are the backup's fault: the schema is its own."""
    with _reading():
        try:
            yield
        except DBAPIError as error:
            if isinstance(error.orig, OSError) or "constraint" not in str(error.orig).lower():
                raise
            raise damaged(f"a row of table {table} breaks a rule of its schema") from None


class _Part:
    """The next ``size`` bytes of a file, for gzip, which would read on."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        """As of a file."""
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data
