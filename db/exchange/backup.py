"""A whole store as one file (:mod:`tuner.keeping.archive`), and back.

A backup is made while services and jobs go on. It is restored as a whole or not at all: first all
of the file is read and every digest compared. Then files are put in place, where nothing refers to
them yet, and last all tables change in one transaction. If it ends before that (Ctrl-C, a full
disk, kill -9), the store is as it was, and a second run finds the files already written.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from sqlalchemy import MetaData
from sqlalchemy.exc import DBAPIError

from db.engine import without_time_limits
from db.exchange.rows import kept_tables, read_rows, write_rows
from db.exchange.whole import (
    Note,
    Wanted,
    one_moment,
    referred_to,
    require_alone,
    require_empty,
    require_named,
)
from db.failure import file_error
from db.files import durable as durable_files
from db.files.inventory import UPLOADS
from db.schema import SCHEMA_VERSION, create, stored_schema
from db.sql_store import SqlStore
from tuner.errors import StoreError, UserError
from tuner.keeping.archive import (
    FILES,
    MANIFEST,
    ArchiveReader,
    ArchiveWriter,
    damaged,
    table_member,
)
from tuner.machine.whole_files import written_whole
from tuner.paths import for_this_user, state_dir, writable
from tuner.records.documents import read_record

_FORCE = "--force replaces all of it; make a backup of it first"
_MOST_MEMBERS = 1 << 28
_MOST_FILE_BYTES = 1 << 30


@dataclass(frozen=True)
class StoredTable:
    """The number of rows of a table, and the digest of its member."""

    rows: int
    sha256: str


@dataclass(frozen=True)
class Contents:
    """A backup's description of itself, in its manifest. ``files`` has the digest of each file by
    its name in a store; ``missing`` are those that the store had lost before."""

    schema: str
    made_at: float
    made_by: str
    tables: Mapping[str, StoredTable] = field(hash=False)
    files: Mapping[str, str] = field(hash=False)
    missing: tuple[str, ...]


@dataclass(frozen=True)
class BackedUp:
    """A new backup. ``manifest_sha256`` stands for all of its contents: kept elsewhere, it tells
    later whether they are still the same. ``missing`` are files that the store itself has lost."""

    file: str
    bytes: int
    rows: int
    files: int
    schema: str
    manifest_sha256: str
    missing: list[str]


@dataclass(frozen=True)
class Restored:
    """A restored backup. ``missing`` are files that the store had lost before it was made."""

    rows: int
    tables: Mapping[str, StoredTable] = field(hash=False)
    files: int
    made_at: float
    schema: str
    manifest_sha256: str
    missing: list[str]


def write_backup(store: SqlStore, place: Path, note: Note = lambda done, total: None) -> BackedUp:
    """Writes all of ``store`` to the new file ``place``, for this user only, whole or not at all.
    Tables are as of one moment; files come later, which is safe, as they never change.

    Raises ``UserError`` if the file cannot be written, or exists.
    """
    if place.exists():
        raise UserError(f"{place} exists", accepted="a new file, or a folder in which to make one")
    try:
        with written_whole(place, opener=for_this_user) as file:
            return _Writer(store, file, note).run(place)
    except OSError as error:
        raise UserError(
            f"cannot write {place}: {error.strerror or error}",
            accepted="a file in a folder that you can write to, on a disk with enough space",
        ) from None


class _Writer:
    """One backup in progress."""

    def __init__(self, store: SqlStore, file: IO[bytes], note: Note) -> None:
        self._store = store
        self._file = file
        self._archive = ArchiveWriter(file)
        self._note = note
        self._total = 0

    def run(self, place: Path) -> BackedUp:
        schema, tables, wanted = self._tables()
        files: dict[str, str] = {}
        for one in wanted:
            if (data := one.whole()) is not None:
                files[one.name] = self._archive.add_file(data, packed=one.name.endswith(".zip"))
                self._went(0)
        made_by = version("hvxtune")
        missing = tuple(one.name for one in wanted if one.name not in files)
        about = Contents(schema, time.time(), made_by, tables, files, missing)
        digest = self._archive.finish(store=asdict(about))
        return BackedUp(
            file=str(place),
            bytes=self._file.tell(),
            rows=sum(one.rows for one in tables.values()),
            files=len(files),
            schema=schema,
            manifest_sha256=digest,
            missing=list(missing),
        )

    def _tables(self) -> tuple[str, dict[str, StoredTable], list[Wanted]]:
        """Adds all tables as of one moment; returns the schema, what was added, and the files that
        they refer to."""
        stored: dict[str, StoredTable] = {}
        with one_moment(self._store) as connection:
            tables = {table.name: table for table in kept_tables(connection)}
            wanted = list(referred_to(self._store, connection, tables))
            self._total = sum(one.size for one in wanted)
            for name, table in tables.items():
                with self._archive.lines(table_member(name)) as lines:
                    hashing = _Hashing(lines.write)
                    rows = write_rows(connection, table, hashing)
                stored[name] = StoredTable(rows, hashing.sha256)
                self._went(hashing.bytes)
            return stored_schema(connection), stored, wanted

    def _went(self, more: int) -> None:
        self._total += more
        self._note(self._file.tell(), max(self._total, self._file.tell()))


class _Hashing:
    """Hands lines on, and keeps their size and digest."""

    def __init__(self, write: Callable[[bytes], object] = lambda line: None) -> None:
        self._write = write
        self._digest = hashlib.sha256()
        self.bytes = 0

    def write(self, line: bytes) -> None:
        self._write(line)
        self._digest.update(line)
        self.bytes += len(line)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


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
        with ArchiveReader(
            file, most_members=_MOST_MEMBERS, most_bytes=_MOST_FILE_BYTES
        ) as archive:
            size = place.stat().st_size
            contents = _checked(archive, lambda: note(file.tell(), 2 * size))
            require_alone(store)
            put = partial(_put_files, store, archive, contents)
            in_database = store.files.storage.in_database
            put(lambda: note(size + file.tell(), 2 * size), artifacts=not in_database)
            with store.transaction() as session:
                without_time_limits(session.connection())
                rows = _replace_tables(store, archive, contents, force=force)
                if in_database:  # their table was dropped, too
                    put(lambda: note(size + file.tell(), 2 * size), artifacts=True)
            note(2 * size, 2 * size)
            return Restored(
                rows=rows,
                tables=contents.tables,
                files=len(contents.files),
                made_at=contents.made_at,
                schema=contents.schema,
                manifest_sha256=archive.manifest_sha256,
                missing=list(contents.missing),
            )


def copy_store(
    source: SqlStore, target: SqlStore, note: Note = lambda done, total: None
) -> Restored:
    """Makes the empty store ``target``, which shares the state directory, hold what ``source``
    holds at this moment, by way of a backup there.

    Raises ``UserError`` if the target is not empty, or is the source, and ``StoreError`` if it is
    in use.
    """
    if source.place == target.place:
        raise UserError(f"{source.place.name} is both source and target", accepted="two databases")
    with target.reading() as session:
        require_empty(target, session.connection(), "make a new database for the copy")
    require_alone(target)
    with TemporaryDirectory(dir=writable("copies")) as folder:
        place = Path(folder) / "copy.zip"
        write_backup(source, place, note)
        return restore_backup(target, place, note=note)


def _checked(archive: ArchiveReader, went: Callable[[], object]) -> Contents:
    """Reads all of it, and trusts nothing else."""
    if "store" not in archive.manifest:
        raise UserError(
            "the file has schedules, and no backup",
            accepted="what `hvxtune db backup` writes",
            next_step="`hvxtune db import` takes it",
        )
    try:
        contents = read_record(Contents, archive.manifest["store"])
    except ValueError as error:
        raise damaged(f"{MANIFEST}: {error}") from None
    if contents.schema != SCHEMA_VERSION:
        raise UserError(
            f"the backup was made by another hvxtune, {contents.made_by[:50]} (its schema is "
            f"{contents.schema[:20]})",
            accepted=f"schema {SCHEMA_VERSION}",
            next_step="restore it with the hvxtune that made it; nothing was changed",
        )
    tables = {table_member(name): one.sha256 for name, one in contents.tables.items()}
    odd = archive.names ^ {*tables, *(FILES + digest for digest in contents.files.values())}
    if odd:
        raise damaged(f"{min(odd)} is missing, or not in {MANIFEST}")
    for member, digest in tables.items():
        if archive.sha256(member) != digest:
            raise damaged(f"{member} differs from {MANIFEST}: it has another SHA-256")
        went()
    for name, digest in contents.files.items():
        require_named(name, digest)
        archive.file(digest, name)
        went()
    return contents


def _put_files(
    store: SqlStore,
    archive: ArchiveReader,
    contents: Contents,
    went: Callable[[], object],
    *,
    artifacts: bool,
) -> None:
    """Writes the files that are missing, with or without the ``artifacts``."""
    for name, digest in contents.files.items():
        folder, _, key = name.partition("/")
        if folder == "artifacts" and not artifacts:
            continue
        data = archive.file(digest, name)
        if folder != "artifacts":
            _put_upload(state_dir() / folder, key, data)
        if folder != "packages" and artifacts:
            store.files.storage.write(UPLOADS + key if folder == "pipelines" else key, data)
        went()


def _put_upload(root: Path, key: str, data: bytes) -> None:
    path = root / key
    try:
        if not (path.is_file() and path.read_bytes() == data):
            durable_files.replace(root, path, data)
    except OSError as error:
        raise file_error(error, path) from error


def _replace_tables(
    store: SqlStore, archive: ArchiveReader, contents: Contents, *, force: bool
) -> int:
    """Replaces everything in the database by the tables of the backup, in one transaction; returns
    the number of rows."""
    rows = 0
    with store.transaction() as session:
        connection = session.connection()
        if not force:
            require_empty(store, connection, _FORCE)
        present = MetaData()
        present.reflect(connection)
        present.drop_all(connection)
        create(connection)
        tables = {table.name: table for table in kept_tables(connection)}
        if tables.keys() != contents.tables.keys():
            odd = min(tables.keys() ^ contents.tables.keys())
            raise damaged(f"table {odd} does not go with schema {contents.schema}")
        for name, table in tables.items():
            with _filling(name), archive.lines(table_member(name)) as lines:
                count = read_rows(connection, table, lines)
            stored = contents.tables[name]
            if count != stored.rows:
                raise damaged(f"table {name} has {count} rows, not {stored.rows}")
            written = _Hashing()
            write_rows(connection, table, written)
            if written.sha256 != stored.sha256:
                raise StoreError(
                    f"table {name} of {store.place.name} is not the one that was written; nothing "
                    "was changed there"
                )
            rows += count
    return rows


@contextmanager
def _filling(table: str) -> Iterator[None]:
    """Rows that the database refuses are the backup's fault: the schema is its own."""
    try:
        yield
    except DBAPIError as error:
        if isinstance(error.orig, OSError) or "constraint" not in str(error.orig).lower():
            raise
        raise damaged(f"a row of table {table} breaks a rule of its schema") from None
