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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

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
def running_server() -> Iterator[Path]:
    """Starts a server and yields the folder of its socket; the superuser is ``hvxtune``."""
    bin_dir = programs()
    assert bin_dir is not None
    user = server_user()
    # A short path: the name of a Unix socket has room for about a hundred characters.
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
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
            settings = ["listen_addresses=", "fsync=off", "max_connections=40"]
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


@contextmanager
def databases() -> Iterator[Callable[..., str]]:
    """Starts a server, and yields what makes databases in it and gives their URLs: empty ones
    (of template ``template1``), or copies of one that has the tables already."""
    numbers = itertools.count(1)
    with running_server() as socket_folder:

        def url(name: str) -> str:
            return f"postgresql://hvxtune@/{name}?host={socket_folder}"

        admin = make_engine(find_url(url("postgres")), 1.0).execution_options(
            isolation_level="AUTOCOMMIT"
        )

        def make(template: str = "tables") -> str:
            name = f"test_{next(numbers)}"
            with admin.connect() as connection:
                connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
            return url(name)

        with admin.connect() as connection:
            connection.execute(text("CREATE DATABASE tables"))
        open_store(url("tables")).close()
        yield make
        admin.dispose()
