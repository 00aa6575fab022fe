"""Conductors as processes, on the real compiler and simulator: they drain, die and share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

import tuner
from db.sql_store import SqlStore
from tests.rig.stopping import stop_between_writes
from tuner.conformance.patience import PATIENCE_S, until
from tuner.records.trial import JobRequest, JobState, Submission

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TRIALS = 45  # seconds of work: whoever looks after three of them finds the job at it
COMMAND = [sys.executable, "-m", "service.cli", "cluster", "conductor"]
FOSTER = """
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
print(child.pid, flush=True)
time.sleep(3600)
"""
"""Starts a conductor as a service does, tells its number, and waits to be killed."""


def submitted(store: SqlStore, trials: int, user: str = "ann", **options: int) -> str:
    made = tuner.submit(
        "scale_u8", store=store, trials=trials, submission=Submission(user), **options
    )
    return made.id


@contextmanager
def started(command: list[str], **how: object) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, text=True, **how)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def assert_whole(store: SqlStore, job_id: str, trials: int) -> None:
    """Every trial once, none pending."""
    found = store.trials(job_id)
    assert [t.number for t in found] == list(range(trials))
    assert len({t.config for t in found}) == trials
    assert store.pending(job_id) == []


def test_it_drains_however_it_is_told_and_the_next_one_goes_on(store: SqlStore) -> None:
    job_id = submitted(store, trials=TRIALS)
    for how in (signal.SIGTERM, "end of input"):
        wanted = len(store.trials(job_id)) + 3
        with started([*COMMAND, "--until-eof"], stdin=subprocess.PIPE) as conductor:
            until(lambda wanted=wanted: len(store.trials(job_id)) >= wanted)
            children = psutil.Process(conductor.pid).children(recursive=True)
            if isinstance(how, signal.Signals):
                conductor.send_signal(how)
            else:
                assert conductor.stdin is not None
                conductor.stdin.close()
            assert conductor.wait(PATIENCE_S) == 0
        assert psutil.wait_procs(children, timeout=PATIENCE_S)[1] == []
        job = store.job(job_id)
        assert (job.state, job.note) == (JobState.QUEUED, "waits: its conductor was shut down")
        assert store.pending(job_id) == []
    with started(COMMAND, stdin=subprocess.DEVNULL):
        until(lambda: store.job(job_id).state.ended)
    assert store.job(job_id).state is JobState.DONE
    assert_whole(store, job_id, TRIALS)


def test_it_dies_with_the_service_that_started_it(store: SqlStore) -> None:
    job_id = submitted(store, trials=TRIALS)
    foster = [sys.executable, "-c", FOSTER, *COMMAND, "--until-eof"]
    with started(foster, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        conductor = psutil.Process(int(parent.stdout.readline()))
        until(lambda: len(store.trials(job_id)) >= 3)
        family = [conductor, *conductor.children(recursive=True)]
        parent.kill()
        assert psutil.wait_procs(family, timeout=PATIENCE_S)[1] == []
    assert store.summary(job_id).interrupted
    store.request(job_id, JobRequest.CANCEL)


def test_two_conductors_share_the_jobs_and_run_none_twice(store: SqlStore) -> None:
    ids = [submitted(store, 6, user, workers=1) for user in ("ann", "bob") for _ in range(3)]
    two = ["--slots", "2"]

    def holds(conductor: subprocess.Popen[str]) -> bool:
        owners = [store.summary(job_id).owner for job_id in ids]
        return any(owner is not None and owner.pid == conductor.pid for owner in owners)

    with started([*COMMAND, *two]) as one:
        until(lambda: holds(one))
        assert store.place.path is not None
        stop_between_writes(one, store.place.path)  # or it does all before the other has started
        with started([*COMMAND, *two]) as other:
            until(lambda: holds(other))
            one.send_signal(signal.SIGCONT)
            until(lambda: all(store.job(job_id).state.ended for job_id in ids))
    for job_id in ids:
        assert store.job(job_id).state is JobState.DONE
        assert_whole(store, job_id, 6)
        states = [e.data["state"] for e in store.events(job_id) if e.kind == "state"]
        assert states == ["queued", "running", "done"]
