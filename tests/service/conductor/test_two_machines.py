"""Two processes on one database, as on two machines: each with a state directory of its own.

A conductor that does not reach the artifacts of the others used to end its jobs, and everybody else
missed their objects: nothing could be fetched, and the schedules were quarantined.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from db import open_store
from db.jobs.conductors import conductors
from db.place import URL_VARIABLE
from db.sql_store import SqlStore
from tests.rig.scale_u8 import KERNELS
from tests.service.conductor.test_process import COMMAND, ROOT, submitted
from tuner.conformance.patience import until
from tuner.keeping.best import lookup_of
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.paths import CACHE_DIR_VARIABLE, STATE_DIR_VARIABLE, cache_dir
from tuner.records.trial import JobState

pytestmark = pytest.mark.slow

TRIALS = 3


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    """The store as the service has it, with artifacts in the state directory of its machine."""
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(cache_dir()))  # simulator and compilers
    monkeypatch.setenv(URL_VARIABLE, f"sqlite:///{tmp_path}/hvxtune.sqlite")
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "here"))
    with closing(open_store()) as opened:
        opened.mark_artifacts()  # as `hvxtune serve` does
        yield opened


@contextmanager
def conductor_in(state: Path) -> Iterator[subprocess.Popen[bytes]]:
    state.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), STATE_DIR_VARIABLE: str(state)}
    process = subprocess.Popen(COMMAND, env=environment, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def reasons(store: SqlStore, process: subprocess.Popen[bytes]) -> str | None:
    """Why the conductor ``process`` is unfit; ``None`` if it is not listed yet."""
    found = [one.reason for one in conductors(store) if one.owner.pid == process.pid]
    return found[0] if found else None


def test_one_that_does_not_share_the_artifacts_is_unfit_until_it_does(
    store: SqlStore, tmp_path: Path
) -> None:
    """Meanwhile the other runs the job."""
    job_id = submitted(store, TRIALS)
    with conductor_in(tmp_path / "there") as there:
        until(lambda: reasons(store, there))
        said = str(reasons(store, there))
        assert said.startswith("artifacts: ")
        assert str(tmp_path / "here") in said
        assert str(tmp_path / "there") in said
        assert store.job(job_id).state is JobState.QUEUED
        with conductor_in(tmp_path / "here") as here:
            until(lambda: store.job(job_id).state.ended)
            assert reasons(store, here) == ""
        assert reasons(store, there) == said
        assert list((tmp_path / "there").glob("artifacts/??/*.zip")) == []
        (tmp_path / "there" / "artifacts").symlink_to(tmp_path / "here" / "artifacts")
        later = submitted(store, TRIALS, seed=1)
        until(lambda: store.job(later).state.ended)
        assert reasons(store, there) == ""
    for job in (store.job(job_id), store.job(later)):
        assert job.state is JobState.DONE
        digests = {trial.artifact_digest for trial in store.trials(job.id)} - {None}
        assert digests
        for digest in digests:
            assert store.artifact(str(digest)).object_bytes
        assert store.best(lookup_of(job.spec.problem)) is not None, "nothing was quarantined"


def test_without_a_simulator_it_is_unfit_and_says_so_at_its_start(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HVXTUNE_QEMU", sys.executable)
    with conductor_in(tmp_path / "here") as here:
        until(lambda: reasons(store, here))
        assert "is not qemu-hexagon" in str(reasons(store, here))
