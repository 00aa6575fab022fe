"""Disks that are full or may not be written: nothing committed is lost."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from db import open_store
from tests.db.writer import ROOT
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, failed, problem, spec
from tuner.errors import StoreError
from tuner.keeping.best import lookup_of
from tuner.paths import STATE_DIR_VARIABLE

IN_OWN_MOUNTS = ["unshare", "--user", "--map-root-user", "--mount"]
NOBODY = 65534


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run([*IN_OWN_MOUNTS, "true"], capture_output=True)
    return tried.returncode == 0


def on_small_disk(folder: Path, kind: str) -> dict[str, Any]:
    command = [*IN_OWN_MOUNTS, sys.executable, "-m", "tests.db.small_disk", str(folder), kind]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


@pytest.mark.skipif(not can_mount(), reason="this system allows no user namespaces to mount in")
@pytest.mark.parametrize("kind", ["rows", "artifacts"])
@pytest.mark.slow
def test_a_full_disk_loses_nothing_and_work_goes_on_once_there_is_room(
    tmp_path: Path, kind: str
) -> None:
    found = on_small_disk(tmp_path, kind)
    assert "no space left on the disk" in found["error"]
    assert str(tmp_path) in found["error"]
    assert "\n" not in found["error"]
    assert found["committed"] > 5
    assert found["kept"] == list(range(found["committed"]))
    assert found["after"] == list(range(found["committed"] + 1))


@pytest.mark.skipif(not can_mount(), reason="this system allows no user namespaces to mount in")
@pytest.mark.slow
def test_a_job_says_that_its_disk_is_full_and_goes_on_once_there_is_room(tmp_path: Path) -> None:
    found = on_small_disk(tmp_path, "job")
    assert found["done"]
    [note] = found["notes"]
    assert note.startswith("queued: no space left on the disk")


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """Writes beyond ``size_bytes`` in any file fail in here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_limit_on_file_size_is_reported_and_loses_nothing(state: Path) -> None:
    with closing(open_store()) as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN)
        token = store.claim(job.id)
        committed = 0
        with pytest.raises(StoreError) as refused, largest_file(300_000):  # noqa: PT012
            for number in range(500):
                store.commit(job.id, token, finished=[failed(number)])
                committed += 1
        assert str(state / "hvxtune.sqlite") in str(refused.value)
        assert "ulimit -f" in str(refused.value)
        with largest_file(5_000), pytest.raises(StoreError, match="File too large") as refused:
            store.commit(job.id, token, artifacts=[artifact(1, listing=os.urandom(20_000))])
        assert str(state / "artifacts") in str(refused.value)
        assert [t.number for t in store.trials(job.id)] == list(range(committed))
        store.commit(job.id, token, finished=[failed(committed)], artifacts=[artifact(1)])
        assert len(store.trials(job.id)) == committed + 1
        assert list((state / "artifacts" / "unfinished").iterdir()) == []


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory that any user may reach, with a database and one job in it."""
    with tempfile.TemporaryDirectory(prefix="hvxtune-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.setenv(STATE_DIR_VARIABLE, name)
        with closing(open_store()) as store:
            job = store.create_job(spec(), SPACE, TOOLCHAIN)
            store.commit(job.id, store.claim(job.id), artifacts=[artifact(1)])
            store.best(lookup_of(problem()))
        if os.getuid() == 0:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, NOBODY, NOBODY)
        yield folder
        folder.chmod(0o755)


def error_of_ordinary_user(act: Callable[[], object]) -> str:
    """The message of the ``StoreError`` that ``act`` ends in, for a user bound by permissions."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        message = "no error"
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            act()
        except StoreError as error:
            message = str(error)
        except BaseException as error:  # noqa: BLE001 - reported to the parent
            message = f"unexpected {type(error).__name__}: {error}"
        finally:
            os.write(writing, message.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        message = pipe.read()
    os.waitpid(child, 0)
    return message


def submit() -> None:
    with closing(open_store()) as store:
        store.create_job(spec(), SPACE, TOOLCHAIN)


def test_a_read_only_file_is_named(shared: Path) -> None:
    (shared / "hvxtune.sqlite").chmod(0o444)
    message = error_of_ordinary_user(submit)
    assert str(shared / "hvxtune.sqlite") in message
    assert "read-only" in message
    assert "permissions" in message


def test_a_read_only_directory_is_named(shared: Path) -> None:
    shared.chmod(0o555)
    message = error_of_ordinary_user(submit)
    assert str(shared) in message
    assert "writable" in message
    assert STATE_DIR_VARIABLE in message


def test_a_read_only_artifact_folder_is_named_and_the_trial_is_not_stored(shared: Path) -> None:
    (shared / "artifacts" / "unfinished").chmod(0o555)

    def commit() -> None:
        with closing(open_store()) as store:
            job = store.jobs()[0]
            store.commit(job.id, store.claim(job.id), finished=[failed(0)], artifacts=[artifact(2)])

    message = error_of_ordinary_user(commit)
    assert str(shared / "artifacts") in message
    assert "read-only" in message
    with closing(open_store()) as store:
        assert store.trials(store.jobs()[0].id) == []
