"""Databases that cannot be used: one line that names the file, the cause and the next step."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from db import open_store
from db.place import URL_VARIABLE
from tuner.conformance.records import (
    SPACE,
    TOOLCHAIN,
    artifact,
    config,
    failed,
    ok,
    problem,
    schedule,
    spec,
)
from tuner.errors import HvxtuneError, StoreError, UserError
from tuner.keeping.best import lookup_of
from tuner.paths import STATE_DIR_VARIABLE
from tuner.records.trial import JobState

pytestmark = pytest.mark.slow

TRIALS = 30


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory with a finished job."""
    folder = tmp_path_factory.mktemp("finished") / "state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STATE_DIR_VARIABLE, str(folder))
        patch.delenv(URL_VARIABLE, raising=False)
        with closing(open_store()) as store:
            job = store.create_job(spec(), SPACE, TOOLCHAIN)
            token = store.claim(job.id)
            for number in range(TRIALS):
                made = artifact(number)
                trial = ok(number, made, 1000 - number)
                offered = schedule(job.id, trial)
                store.commit(job.id, token, finished=[trial], artifacts=[made], schedule=offered)
            store.release(job.id, token, JobState.DONE)
    return folder


@pytest.fixture
def file(state: Path, finished: Path) -> Path:
    """A closed database with one finished job."""
    shutil.copytree(finished, state)
    return state / "hvxtune.sqlite"


def read_everything() -> list[int]:
    """Reads all there is; the numbers of the trials. Their configs must be what was stored."""
    with closing(open_store()) as store:
        trials = [trial for job in store.jobs() for trial in store.trials(job.id)]
        for trial in trials:
            assert trial.config == config(trial.number)
        for job in store.jobs():
            assert job.spec.problem == problem()
            store.pending(job.id)
            store.space(job.id)
        store.summaries()
        best = store.best(lookup_of(problem()))
        assert best is None or store.artifact(best.artifact_digest).symbol
        return [trial.number for trial in trials]


def one_line(error: HvxtuneError, *parts: object) -> None:
    text = str(error)
    assert "\n" not in text
    for part in parts:
        assert str(part) in text


@pytest.mark.parametrize(
    "damage",
    [
        lambda good: b"this is a letter, not a database. " * 500,
        lambda good: good[: len(good) // 2],
        lambda good: good[:8192] + bytes(20_000) + good[28_192:],
    ],
    ids=["letter", "cut in half", "hole"],
)
def test_a_damaged_file_is_named_and_left_as_it_is(
    file: Path, damage: Callable[[bytes], bytes]
) -> None:
    damaged = damage(file.read_bytes())
    file.write_bytes(damaged)
    with pytest.raises(StoreError) as refused:
        read_everything()
    one_line(refused.value, file, "damaged", f"mv {file}*", ".recover")
    assert file.read_bytes() == damaged


def test_a_flipped_bit_is_reported_or_harmless_but_never_a_traceback(file: Path) -> None:
    good = file.read_bytes()
    choose = random.Random(20)
    reported = 0
    for _ in range(40):
        flipped = bytearray(good)
        flipped[choose.randrange(len(good))] ^= 1 << choose.randrange(8)
        file.write_bytes(flipped)
        try:
            read_everything()
        except HvxtuneError as error:
            one_line(error)
            reported += 1
    assert reported, "no flip hit anything: the test reads too little"
    file.write_bytes(good)
    assert read_everything() == list(range(TRIALS))


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as raw, raw:
        raw.execute(statement)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE trials SET config = '{\"tile_m\": 99}' WHERE number = 3", "trial 3 of job"),
        ("UPDATE targets SET figures = json_set(figures, '$.vector_bytes', 64)", "problem 1"),
        ("UPDATE spaces SET document = '{}'", "space"),
    ],
)
def test_a_row_that_is_not_what_was_stored_is_refused(
    file: Path, statement: str, what: str
) -> None:
    change(file, statement)
    with pytest.raises(StoreError) as refused:
        read_everything()
    one_line(refused.value, file, what, "damaged")


def test_a_database_of_another_schema_is_refused_untouched(file: Path) -> None:
    change(file, "UPDATE schema_version SET version = '0999'")
    before = file.read_bytes()
    with pytest.raises(StoreError) as refused:
        open_store()
    one_line(refused.value, file, "another hvxtune", "0999", "use the hvxtune that made it")
    assert file.read_bytes() == before


def test_somebody_elses_database_is_refused_untouched(tmp_path: Path) -> None:
    songs = tmp_path / "songs.sqlite"
    change(songs, "CREATE TABLE songs (name TEXT)")
    with pytest.raises(StoreError) as refused:
        open_store(f"sqlite:///{songs}")
    one_line(refused.value, songs, "songs", "of its own")
    with closing(sqlite3.connect(songs)) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("songs",)]


HOLD_LOCK = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
input()
"""


def test_a_locked_database_is_waited_for_then_reported_with_who_has_it(file: Path) -> None:
    command = [sys.executable, "-c", HOLD_LOCK, str(file)]
    with (
        closing(open_store(busy_timeout_s=0.1)) as store,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder,
    ):
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StoreError) as refused:
            store.create_job(spec(), SPACE, TOOLCHAIN)
        one_line(refused.value, file, "locked", f"process {holder.pid}", "wait")
        assert len(store.jobs()) == 1, "readers are not locked out"
        holder.kill()
        holder.wait()
        store.create_job(spec(), SPACE, TOOLCHAIN)
        assert len(store.jobs()) == 2


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("nonsense", "'nonsense' is not a database URL"),
        ("mysql://me:secret@host/x", "unknown kind of database in mysql"),
        ("postgresql://me:secret@host:port/x", "not a database URL"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
    ],
)
def test_a_wrong_url_is_refused_with_what_is_accepted(
    url: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL_VARIABLE, url)
    with pytest.raises(StoreError) as refused:
        open_store()
    one_line(refused.value, part, "sqlite:///FILE")
    assert "secret" not in str(refused.value)


def test_a_missing_driver_comes_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError) as refused:
        open_store("postgresql://me:secret@host/x")
    one_line(refused.value, "psycopg", "pip install 'hvxtune[postgres]'")
    assert "secret" not in str(refused.value)


def test_the_url_of_the_environment_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL_VARIABLE, f"sqlite:///{tmp_path}/other.sqlite")
    with closing(open_store()) as store:
        assert store.place.path == tmp_path / "other.sqlite"
        assert store.jobs() == []


def test_numbers_too_large_to_store_are_refused() -> None:
    with closing(open_store()) as store, pytest.raises(UserError, match="63 bits"):
        store.create_job(spec(seed=1 << 70), SPACE, TOOLCHAIN)


def test_error_texts_may_hold_anything() -> None:
    with closing(open_store()) as store:
        job_id = store.create_job(spec(), SPACE, TOOLCHAIN).id
        hostile = "nul \0 surrogate \udc80 smile \U0001f600"
        finished = [replace(failed(0), error=hostile)]
        store.commit(job_id, store.claim(job_id), finished=finished)
        assert store.trials(job_id)[0].error == "nul \ufffd surrogate \ufffd smile \U0001f600"
