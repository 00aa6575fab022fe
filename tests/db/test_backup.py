"""Backups of the store as one file, with SQLite."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from db import open_store
from db.sql_store import SqlStore
from tests.databases import put_database
from tests.db.backup_conformance import BackupConformance, MakeStore, in_use
from tuner.paths import STATE_DIR_VARIABLE

pytestmark = pytest.mark.slow


class TestSqliteBackup(BackupConformance):
    @pytest.fixture
    def store(self, database: None, state: Path) -> Iterator[SqlStore]:
        with closing(open_store()) as opened:
            yield opened

    @pytest.fixture
    def elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeStore]:
        numbers = itertools.count(1)
        with ExitStack() as stack:

            def make() -> SqlStore:
                folder = tmp_path / f"elsewhere{next(numbers)}"
                put_database(folder)
                monkeypatch.setenv(STATE_DIR_VARIABLE, str(folder))
                return stack.enter_context(closing(open_store()))

            yield make

    def test_a_database_in_use_is_left_alone(
        self, file: Path, elsewhere: MakeStore, tmp_path: Path
    ) -> None:
        other = elsewhere()
        hold = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        hold += "c.execute('SELECT count(*) FROM jobs'); print(flush=True); sys.stdin.read()"
        holder = subprocess.Popen(
            [sys.executable, "-c", hold, str(other.place.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            in_use(other, file)
        finally:
            holder.communicate()
