"""A private PostgreSQL server for tests: own data directory, Unix socket only, no network."""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from db import open_store
from db.engine import find_url, make_engine
from tuner.conformance.patience import PATIENCE_S


def programs() -> Path | None:
    """The folder of the newest ``initdb`` and ``postgres``; Debian keeps them off the path."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent  # the others may have no link beside it
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(versions, key=lambda path: int(path.parts[-3]), default=None)
    return newest.parent if newest else None


def server_user() -> str | None:
    """The user to run the server as, which refuses to run as root; ``None`` for this one."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return None


@contextmanager
def running_server(*, durable: bool = False) -> Iterator[Path]:
    """Starts a server and yields the folder of its socket; the superuser is ``hvxtune``. It does
    not wait for the disk unless it is ``durable``."""
    bin_dir = programs()
    assert bin_dir is not None
    user = server_user()
    # Databases are made and dropped a thousand times: in memory, where that can be had.
    memory = Path("/dev/shm")  # noqa: S108
    place = memory if memory.is_dir() and not durable else None
    # A short path: the name of a Unix socket has room for about a hundred characters.
    with tempfile.TemporaryDirectory(prefix="pg-", dir=place) as name:
        folder = Path(name)
        if user is not None:
            shutil.chown(folder, user)
        data = folder / "data"
        run_as: dict[str, Any] = {"cwd": folder}
        if user is not None:
            run_as |= {"user": user, "extra_groups": []}
        subprocess.run(
            [bin_dir / "initdb", "-D", data, "-U", "hvxtune", "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
            **run_as,
        )
        with (folder / "log").open("w") as log:
            fsync = f"fsync={'on' if durable else 'off'}"
            settings = ["listen_addresses=", fsync, "max_connections=80", "max_wal_size=64MB"]
            options = [f"--{setting}" for setting in settings]
            server = subprocess.Popen(
                [bin_dir / "postgres", "-D", data, "-k", folder, *options],
                stdout=log,
                stderr=log,
                **run_as,
            )
        try:
            wait_for(bin_dir, folder, server)
            yield folder
        finally:
            server.send_signal(signal.SIGQUIT)  # "immediate": nothing here is worth a checkpoint
            server.wait(PATIENCE_S)


def wait_for(bin_dir: Path, folder: Path, server: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while subprocess.run([bin_dir / "pg_isready", "-q", "-h", folder], check=False).returncode:
        assert server.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)


NEEDS_POSTGRES = (
    pytest.mark.skipif(programs() is None, reason="no PostgreSQL server is installed here"),
    pytest.mark.skipif(
        importlib.util.find_spec("psycopg") is None, reason="the extra 'postgres' is not installed"
    ),
)
"""Marks of tests that use :func:`databases`."""


class Databases:
    """Makes databases in a server and gives their URLs: empty ones (of template ``template1``), or
    copies of one that has the tables already."""

    def __init__(self, socket_folder: Path) -> None:
        self._socket_folder = socket_folder
        self._numbers = itertools.count(1)
        self._in_use: dict[str, str] = {}
        self._empty: list[str] = []
        self._engines: dict[str, Engine] = {}
        self._run("postgres", "CREATE DATABASE tables")
        open_store(self._url("tables")).close()
        self._schema = self._run("tables", _SCHEMA)
        self._engines.pop("tables").dispose()  # a template has no connections

    def __call__(self, template: str = "tables") -> str:
        if template == "tables" and self._empty:
            name = self._empty.pop()
        else:
            name = f"test_{next(self._numbers)}"
            self._run("postgres", f"CREATE DATABASE {name} TEMPLATE {template}")
        self._in_use[name] = template
        return self._url(name)

    def take_back(self) -> None:
        """Ends all use of those that were made. They are emptied for the next test, which takes a
        tenth of the time that a new one takes, or dropped if their tables are others now."""
        for name, template in self._in_use.items():
            self._run("postgres", _END_USE.format(name=name))
            if template == "tables" and self._run(name, _SCHEMA) == self._schema:
                self._run(name, _EMPTY)
                self._empty.append(name)
            else:
                if name in self._engines:
                    self._engines.pop(name).dispose()
                self._run("postgres", f"DROP DATABASE {name}")
        self._in_use.clear()

    def close(self) -> None:
        for engine in self._engines.values():
            engine.dispose()

    def _url(self, name: str) -> str:
        return f"postgresql://hvxtune@/{name}?host={self._socket_folder}"

    def _run(self, name: str, statement: str) -> object:
        """The first value that ``statement`` gives in a database."""
        if name not in self._engines:
            url = find_url(self._url(name)).update_query_dict({"application_name": "rig"})
            engine = make_engine(url, 1.0).execution_options(isolation_level="AUTOCOMMIT")
            self._engines[name] = engine
        with self._engines[name].connect() as connection:
            found = connection.execute(text(statement))
            return found.scalar() if found.returns_rows else None


_SCHEMA = """SELECT (SELECT version FROM schema_version) || ' ' || count(*)
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = CAST('public' AS regnamespace)"""
_END_USE = """SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
    WHERE datname = '{name}' AND application_name <> 'rig'"""
_EMPTY = """DO $$ DECLARE one text; BEGIN
    SET LOCAL session_replication_role = replica;
    FOR one IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'public' AND tablename <> 'schema_version'
    LOOP EXECUTE format('DELETE FROM %I', one); END LOOP;
    FOR one IN SELECT sequencename FROM pg_sequences
        WHERE schemaname = 'public' AND last_value IS NOT NULL
    LOOP EXECUTE format('ALTER SEQUENCE %I RESTART', one); END LOOP;
    END $$"""


@contextmanager
def databases(*, durable: bool = False) -> Iterator[Databases]:
    """Starts a server for databases of tests."""
    with (
        running_server(durable=durable) as socket_folder,
        closing(Databases(socket_folder)) as made,
    ):
        yield made
