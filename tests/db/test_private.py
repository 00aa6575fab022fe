"""What is kept is for its user, whatever the umask says and however it was before."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from db import open_store, pipelines
from db.engine import DATABASE_FILE
from db.exchange import write_backup
from db.files.disk import Reserve
from db.private import tightened
from service.auth.local_token import keep_local_token
from tests.db.backup_conformance import fill
from tuner.paths import STATE_DIR_VARIABLE, writable
from tuner.uploaded import files as uploads


@pytest.fixture
def no_umask() -> Iterator[None]:
    """What others could do is then for the code alone to say."""
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(state: Path) -> list[str]:
    return sorted(
        f"{path} {stat.S_IMODE(path.lstat().st_mode):04o}"
        for path in (state, *state.rglob("*"))
        if path.lstat().st_mode & 0o077
    )


def test_nothing_is_ever_made_open_to_others(
    no_umask: None, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chmods: list[object] = []
    monkeypatch.setattr(os, "chmod", lambda *given, **_: chmods.append(given))
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(state / "deep" / "down"))
    with closing(open_store()) as store:
        fill(store)
        keep_local_token("hvx_")
        uploads.keep(b"another")
        write_backup(store, state / "backup.zip")
        Reserve(store.place).fill()
        made = {path.name for path in (state / "deep" / "down").iterdir()}
        wanted = {DATABASE_FILE, f"{DATABASE_FILE}-wal", f"{DATABASE_FILE}-shm"}
        assert made == {*wanted, "artifacts", "pipelines", "reserve", "token"}
        assert len(list((state / "deep").rglob("*.zip"))) == 2
        assert open_to_others(state) == []
    assert chmods == [], "made with their modes, not changed afterwards"


def test_a_database_elsewhere_is_private_too(no_umask: None, tmp_path: Path) -> None:
    file = tmp_path / "mine.sqlite"
    with closing(open_store(f"sqlite:///{file}")) as store:
        fill(store)
        modes = {p.name: p.stat().st_mode & 0o777 for p in tmp_path.glob("mine.sqlite*")}
    assert modes == dict.fromkeys(("mine.sqlite", "mine.sqlite-wal", "mine.sqlite-shm"), 0o600)


def loosen(state: Path) -> None:
    for path in (state, *state.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)


def test_what_was_open_is_closed_and_that_is_told_once(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with closing(open_store()) as store:
        pipelines.keep(store, b"bytes", "blur", "ann", {})
    loosen(state)
    with closing(open_store()):
        told = [record.getMessage() for record in caplog.records]
        assert len(told) == 4
        assert f"{state / DATABASE_FILE} was open to others (mode 0666), and is no longer" in told
        for path in (state, state / "pipelines", state / "artifacts"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        for path in state.glob(f"{DATABASE_FILE}*"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        caplog.clear()
    open_store().close()
    assert caplog.records == []


@pytest.mark.sqlite
def test_a_folder_with_other_uses_is_left_as_it_is(state: Path, database: None) -> None:
    (state / "somebody's").mkdir()
    loosen(state)
    assert [line.split()[0] for line in tightened(state / DATABASE_FILE)] == [
        str(state / DATABASE_FILE)
    ]
    assert stat.S_IMODE(state.stat().st_mode) == 0o777


def test_what_is_another_users_is_left_to_them(
    state: Path, database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    loosen(state)
    monkeypatch.setattr(os, "geteuid", lambda: state.stat().st_uid + 1)
    assert list(tightened(state / DATABASE_FILE)) == []


def test_folders_in_the_state_directory_are_private(no_umask: None, state: Path) -> None:
    assert stat.S_IMODE(writable("a/b").stat().st_mode) == 0o700
    assert open_to_others(state) == []
