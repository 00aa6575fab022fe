"""Connections: the database, its driver, and the set-up of SQLite for one writer at a time."""

from __future__ import annotations

import json
import os
import select
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError, NoSuchModuleError
from sqlalchemy.pool import ConnectionPoolEntry

from db.failure import wrong_url
from db.place import URL_VARIABLE, Place
from tuner.errors import StoreError
from tuner.paths import writable

DATABASE_FILE = "hvxtune.sqlite"
WRITING = {"hvxtune_begin": "BEGIN IMMEDIATE"}
"""Execution options of a transaction that will write. It takes SQLite's write lock at its start:
a reader that becomes a writer half-way would be refused instead of waiting."""


def reading_options(engine: Engine) -> dict[str, Any]:
    """Execution options of transactions that only read. On PostgreSQL, where each statement sees
    what is committed before it anyway, there is no transaction around them, which would take two
    more round trips. In SQLite all statements see one state."""
    return {"isolation_level": "AUTOCOMMIT"} if engine.dialect.name == "postgresql" else {}


_WAL_RETRY_S = 0.02
_MAPPED_BYTES = 16 << 30
"""At most; address space, not memory. SQLite itself allows 2 GB unless built for more."""


def find_url(given: str | None) -> URL:
    """The URL of the database: ``given``, else ``HVXTUNE_DATABASE_URL``, else the SQLite file
    in the state directory (which is created). ``StoreError`` if it cannot be used.
    """
    text = given or os.environ.get(URL_VARIABLE)
    if not text:
        return URL.create("sqlite", database=str(writable("") / DATABASE_FILE))
    try:
        url = make_url(text)
        kind = url.get_backend_name()
        if kind not in ("sqlite", "postgresql"):
            raise NoSuchModuleError(kind)
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        # A URL that cannot be read may hold a password, so only its start is shown.
        shown = text.partition("://")[0][:40] + "://..." if "://" in text else text[:40]
        raise wrong_url(shown, error) from error
    if kind == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if not url.database or url.database == ":memory:":
        raise StoreError(f"'{text}' names no file", accepted="sqlite:///FILE")
    file = str(Path(url.database).expanduser().absolute())
    return url.set(drivername="sqlite", database=file)


def place_of(url: URL) -> Place:
    """``url`` for messages: the path of a file, or the URL without its password."""
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "")
        return Place(str(path), path)
    return Place(url.set(drivername="postgresql").render_as_string(hide_password=True))


_CONNECTION = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Parameters of libpq: seconds, and milliseconds for the last. A server that is cut off is given up
after half a minute, and not after the quarter of an hour that Linux would try."""
_PATIENCE = {
    "lock_timeout": "30s",
    "statement_timeout": "5min",
    "idle_in_transaction_session_timeout": "30s",
}
"""Limits of transactions, which the server keeps. A conductor that is frozen or cut off in
mid-transaction would otherwise keep its locks, and with the one on choosing jobs all other
conductors waiting."""
_SESSION = {
    **_PATIENCE,
    "tcp_keepalives_idle": "15s",
    "tcp_keepalives_interval": "5s",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "30s",
}


def _for_server(url: URL) -> dict[str, Any]:
    """How to connect to PostgreSQL, unless ``url`` says otherwise."""
    given = url.normalized_query
    settings = [f"-c {name}={value}" for name, value in _SESSION.items()]
    return {
        **{name: value for name, value in _CONNECTION.items() if name not in given},
        "options": " ".join([*settings, *given.get("options", ())]),
    }


def without_time_limits(connection: Connection) -> None:
    """Lets the transaction of ``connection`` take as long as it needs: a restore, a backup."""
    if connection.dialect.name == "postgresql":
        for name in _PATIENCE:
            connection.exec_driver_sql(f"SET LOCAL {name} = 0")


def make_engine(url: URL, busy_timeout_s: float) -> Engine:
    """An engine for ``url``. ``busy_timeout_s`` is how long a locked SQLite file is waited for."""
    is_sqlite = url.get_backend_name() == "sqlite"
    try:
        engine = create_engine(
            url,
            json_serializer=partial(json.dumps, separators=(",", ":"), allow_nan=False),
            connect_args={"timeout": busy_timeout_s} if is_sqlite else _for_server(url),
        )
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise wrong_url(place_of(url).name, error) from error
    if is_sqlite:
        event.listen(engine, "connect", partial(_set_up_sqlite, busy_timeout_s))
        event.listen(engine, "begin", _begin_sqlite)
    else:
        event.listen(engine, "checkout", partial(_require_connected, engine.dialect))
        event.listen(engine, "checkin", _note_use)
    return engine


_BELIEVED_S = 30.0
"""A connection that was used within this time is asked nothing, unless it has something to say."""
_USED_AT = "used_at"


def _require_connected(
    dialect: Dialect, connection: Any, record: ConnectionPoolEntry, _proxy: Any
) -> None:
    """Has a connection replaced whose server was restarted meanwhile.

    A server that goes away ends its connections, which can then be read from: to look costs no
    round trip, as a ping before each transaction would.
    """
    used_at = record.info.get(_USED_AT)
    if used_at is None:
        return  # made just now
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if not poll.poll(0) and time.monotonic() - used_at < _BELIEVED_S:
        return
    try:
        dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise DisconnectionError from error


def _note_use(_connection: Any, record: ConnectionPoolEntry) -> None:
    record.info[_USED_AT] = time.monotonic()


def _set_up_sqlite(
    busy_timeout_s: float, connection: sqlite3.Connection, _record: Any = None
) -> None:
    # sqlite3 would open transactions late, and none for DDL; `_begin_sqlite` does.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    _enter_wal(connection, time.monotonic() + busy_timeout_s)
    # FULL writes the log through to the disk at each commit, so that a trial once committed
    # survives a power cut too. That is one fsync, against the hundreds of milliseconds a trial
    # takes; NORMAL would only survive the end of the process.
    connection.execute("PRAGMA synchronous = FULL")


def _enter_wal(connection: sqlite3.Connection, deadline: float) -> None:
    """Switches to write-ahead logging: readers and the writer do not wait for each other.

    The mode is a property of the file, so only the first connection of all does work. SQLite
    does not apply the busy timeout to the switch itself (two processes open a new database at
    once), hence the loop.
    """
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(_WAL_RETRY_S)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("hvxtune_begin", "BEGIN"))


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A bare connection to the SQLite file ``path`` for look-ups, one transaction each.

    Pages are mapped, not copied, so that the system's cache of a large database is not kept twice.
    In WAL mode readers never wait, so no busy timeout is set.
    """
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=16
    )
    connection.execute("PRAGMA query_only = ON")
    connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
    return connection
