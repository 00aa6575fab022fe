"""Fills a small disk with trials until the store says so, then makes room and goes on.

``unshare --user --map-root-user --mount python -m tests.db.small_disk FOLDER KIND`` mounts a small
tmpfs on FOLDER, which only this process sees, and prints what happened as JSON. KIND says what
fills the disk: ``rows`` or ``artifacts``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from db import open_store
from db.sql_store import SqlStore
from tests.tuner.sample_records import SPACE, TOOLCHAIN, artifact, failed, ok, spec
from tuner.errors import StoreError
from tuner.paths import STATE_DIR_VARIABLE


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


if __name__ == "__main__":
    disk = Path(sys.argv[1])
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True)
    os.environ[STATE_DIR_VARIABLE] = str(disk)
    print(json.dumps(fill(disk, sys.argv[2])))  # noqa: T201 - how it talks to the test
