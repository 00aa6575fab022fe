"""All that a store holds, for a backup or a copy: its tables at one moment, and the files that
their rows refer to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Table, func, select, text

from db.engine import without_time_limits
from db.exchange.rows import kept_tables
from db.failure import users_of
from db.pipelines import shared_as
from db.sql_store import SqlStore
from tuner.errors import StoreError, UserError
from tuner.identity import digest_of_bytes
from tuner.keeping.archive import damaged
from tuner.keeping.artifact_storage import LostFileError
from tuner.packages import files as packages
from tuner.uploaded import files as uploads

Note = Callable[[int, int], object]
"""Receives the bytes done and the bytes in all, which grow while they are found out."""
_TABLES_SHOWN = ("jobs", "schedules", "tokens", "pipelines")
_NAME = re.compile(
    r"artifacts/([0-9a-f]{2})/\1[0-9a-f]{62}-(?P<start>[0-9a-f]{16})\.zip"
    r"|pipelines/([0-9a-f]{2})/(?P<whole>\3[0-9a-f]{62})\.halide"
    r"|packages/([0-9a-f]{2})/(?P<package>\5[0-9a-f]{62})\.json"
)


def require_named(name: str, digest: str) -> None:
    """``UserError`` unless a file of a store is called ``name``, which then leads nowhere else, and
    has the digest that this says."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise damaged(f"a file called {name[:100]!r}")
    if not digest.startswith(found["whole"] or found["package"] or found["start"]):
        raise damaged(f"{name} has another digest than its name says")


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
            require_named(self.name, digest_of_bytes(data))
        except (FileNotFoundError, LostFileError, UserError):  # as fetching it would show too
            return None
        return data


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
