"""Makes a backup, while services and jobs go on."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import IO, NamedTuple

from sqlalchemy import Connection, Table, select

from db.backup.layout import (
    MANIFEST,
    Hashing,
    Manifest,
    Member,
    Note,
    require_known,
    table_member,
)
from db.backup.rows import kept_tables, write_rows
from db.engine import without_time_limits
from db.pipelines import shared_as
from db.schema import stored_schema
from db.sql_store import SqlStore
from tuner.errors import UserError
from tuner.identity import digest_of_bytes
from tuner.keeping.artifact_storage import LostFileError
from tuner.machine.whole_files import written_whole
from tuner.packages import files as packages
from tuner.paths import PRIVATE_FILE_MODE, for_this_user
from tuner.uploaded import files as uploads


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


class Wanted(NamedTuple):
    """A file that rows refer to: its name in the backup, its size, and what reads it. That raises
    ``StoreError`` or ``OSError`` for a file that is lost or damaged."""

    name: str
    size: int
    read: Callable[[], bytes]

    def whole(self) -> bytes | None:
        """Its bytes, with the digest that its name says; ``None`` if it is lost or damaged."""
        try:
            data = self.read()
            require_known(self.name, digest_of_bytes(data))
        except (FileNotFoundError, LostFileError, UserError):  # as fetching it would show too
            return None
        return data


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
        self._note = note
        self._total = 0
        self._members: dict[str, Member] = {}
        self._missing: list[str] = []

    def run(self, place: Path) -> BackedUp:
        with tarfile.open(fileobj=self._file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            schema, rows, wanted = self._tables(archive, place.parent)
            for one in wanted:
                self._file_of(archive, one)
            manifest = Manifest(
                schema=schema,
                made_at=time.time(),
                made_by=version("hvxtune"),
                tables=rows,
                members=self._members,
                missing=self._missing,
            ).as_bytes()
            self._add(archive, MANIFEST, io.BytesIO(manifest), len(manifest))
        return BackedUp(
            file=str(place),
            bytes=self._file.tell(),
            rows=sum(rows.values()),
            files=len(wanted) - len(self._missing),
            schema=schema,
            manifest_sha256=digest_of_bytes(manifest),
            missing=self._missing,
        )

    def _tables(
        self, archive: tarfile.TarFile, scratch: Path
    ) -> tuple[str, dict[str, int], list[Wanted]]:
        """Adds all tables as of one moment; returns the schema, the number of rows of each, and the
        files that they refer to."""
        counts: dict[str, int] = {}
        with one_moment(self._store) as connection:
            tables = {table.name: table for table in kept_tables(connection)}
            schema = stored_schema(connection)
            wanted = list(referred_to(self._store, connection, tables))
            self._total = sum(one.size for one in wanted)
            for name, table in tables.items():
                with tempfile.TemporaryFile(dir=scratch) as packed:
                    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6) as lines:
                        counts[name] = write_rows(connection, table, lines)
                    size = packed.tell()
                    packed.seek(0)
                    self._total += size
                    self._add(archive, table_member(name), packed, size)
        return schema, counts, wanted

    def _file_of(self, archive: tarfile.TarFile, one: Wanted) -> None:
        data = one.whole()
        if data is None:
            self._missing.append(one.name)
        else:
            self._add(archive, one.name, io.BytesIO(data), len(data))

    def _add(self, archive: tarfile.TarFile, name: str, data: IO[bytes], size: int) -> None:
        about = tarfile.TarInfo(name)
        about.size, about.mode, about.mtime = size, PRIVATE_FILE_MODE, time.time()
        hashing = Hashing(data)
        archive.addfile(about, hashing)
        if name != MANIFEST:
            self._members[name] = hashing.member
        self._note(self._file.tell(), max(self._total, self._file.tell()))


@contextmanager
def one_moment(store: SqlStore) -> Iterator[Connection]:
    """A connection that sees the database as it is now, whatever others commit meanwhile, as each
    transaction of SQLite does."""
    with store.reading() as session:
        is_server = session.get_bind().dialect.name == "postgresql"
        options = {"isolation_level": "REPEATABLE READ"} if is_server else {}
        connection = session.connection(execution_options=options)
        without_time_limits(connection)
        yield connection


def referred_to(
    store: SqlStore, connection: Connection, tables: dict[str, Table]
) -> Iterator[Wanted]:
    """The files that the rows of ``tables`` need, and those that commands keep without a row."""
    artifacts, pipelines = tables.get("artifacts"), tables.get("pipelines")
    if artifacts is not None:
        columns = (artifacts.c.digest, artifacts.c.file_digest, artifacts.c.stored_bytes)
        for digest, file_digest, size in connection.execute(select(*columns).order_by(*columns)):
            key = store.files.key(digest, file_digest)
            read = partial(store.files.storage.read, key, file_digest)
            yield Wanted(f"artifacts/{key}", size, read)
    for digest in sorted(packages.kept_digests()):
        path = packages.path_of(digest)
        yield _on_disk(f"{packages.FOLDER}/{path.parent.name}/{path.name}", path)
    # Commands keep pipelines without a row for each, for the jobs that name them.
    digests = set(uploads.kept())
    if pipelines is not None:
        digests.update(connection.scalars(select(pipelines.c.digest)))
    for digest in sorted(digests):
        path = uploads.path_of(digest)
        name = f"{uploads.FOLDER}/{path.parent.name}/{path.name}"
        key = shared_as(digest)
        shared = None if path.is_file() else store.files.storage.size(key)
        if shared is None:
            yield _on_disk(name, path)
        else:  # uploaded to another machine
            yield Wanted(name, shared, partial(store.files.storage.read, key, digest))


def _on_disk(name: str, path: Path) -> Wanted:
    return Wanted(name, path.stat().st_size if path.is_file() else 0, path.read_bytes)
