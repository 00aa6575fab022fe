"""Fills a small disk with trials until the store says so, then makes room and goes on.

``unshare --user --map-root-user --mount python -m tests.db.small_disk FOLDER KIND`` mounts a small
tmpfs on FOLDER, which only this process sees, and prints what happened as JSON. KIND says what
fills the disk: ``rows`` or ``artifacts``; or that a ``job`` is run on a full one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from db import open_store
from db.jobs.queue import ClaimedJob
from db.sql_store import SqlStore
from service.conductor.conductor import Conductor
from service.conductor.troubles import Troubles
from tuner.conformance.patience import PATIENCE_S
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, failed, ok, spec
from tuner.errors import StoreError
from tuner.paths import STATE_DIR_VARIABLE
from tuner.records.trial import JobState, Submission
from tuner.search.stopping import StopRequest


def commit(store: SqlStore, job_id: str, token: int, number: int, kind: str) -> None:
    if kind == "rows":
        store.commit(job_id, token, finished=[failed(number)])
    else:
        made = artifact(number, loopnest=os.urandom(200_000))
        store.commit(job_id, token, finished=[ok(number, made)], artifacts=[made])


def fill(folder: Path, kind: str) -> dict[str, object]:
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(400_000))  # an artifact and its way through the log
    store = open_store()
    job = store.create_job(spec(), SPACE, TOOLCHAIN)
    token = store.claim(job.id)
    committed, error = 0, ""
    while not error:
        try:
            commit(store, job.id, token, committed, kind)
            committed += 1
        except StoreError as refused:
            error = str(refused)
    kept = [t.number for t in store.trials(job.id)]
    ballast.unlink()
    commit(store, job.id, token, committed, kind)
    trials = store.trials(job.id)
    for trial in trials:
        if trial.artifact_digest is not None:
            store.artifact(trial.artifact_digest)  # raises if it is not whole
    store.close()
    return {
        "error": error,
        "committed": committed,
        "kept": kept,
        "after": [t.number for t in trials],
    }


def tried(act: Callable[[], object]) -> str:
    """The error that ``act`` ends in."""
    try:
        act()
    except StoreError as refused:
        return str(refused)
    return ""


def full(folder: Path) -> Path:
    """Leaves nothing of the disk: its file that does so."""
    ballast = folder / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return ballast


def conduct(folder: Path, kind: str) -> dict[str, object]:
    """What a job on a full disk says of itself, and what becomes of it when there is room."""
    job_ended, leave, notes = threading.Event(), threading.Event(), []

    def run(job: ClaimedJob, store: SqlStore, stop: StopRequest) -> JobState:
        if not notes:
            full(folder)
            for number in range(1000):
                store.commit(job.id, job.token, finished=[failed(number)])
        store.release(job.id, job.token, JobState.DONE)
        job_ended.set()
        return JobState.DONE

    with open_store() as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))
        conductor = Conductor(store, run=run, troubles=Troubles(first_wait_s=2.0))
        working = threading.Thread(target=conductor.run, args=(leave,))
        working.start()
        deadline = time.monotonic() + PATIENCE_S
        while not notes and time.monotonic() < deadline:
            time.sleep(0.02)
            now = store.job(job.id)
            if now.note:
                notes.append(f"{now.state}: {now.note}")
        (folder / "ballast").unlink()
        done = job_ended.wait(PATIENCE_S)
        leave.set()
        working.join()
    return {"notes": notes, "done": done}


_KINDS = {"rows": fill, "artifacts": fill, "job": conduct}


if __name__ == "__main__":
    disk = Path(sys.argv[1])
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True)
    os.environ[STATE_DIR_VARIABLE] = str(disk)
    print(json.dumps(_KINDS[sys.argv[2]](disk, sys.argv[2])))  # noqa: T201 - how it talks to the test
