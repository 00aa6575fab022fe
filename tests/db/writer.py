"""A process that works on a job: claims it and commits trials, one transaction each.

``python -m tests.db.writer JOB TRIALS DIE_AFTER MOST`` prints the token of its claim, then the
number of each trial once its commit has returned. With ``DIE_AFTER`` not 0 it kills itself, as
``kill -9`` would, at that step; a step is an SQL statement, a commit, or a file opened or renamed.
After ``MOST`` trials it waits to be killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from db import open_store
from db.sql_store import SqlStore
from tuner.conformance.records import artifact, ok, pending, schedule
from tuner.records.trial import JobState, Schedule

ROOT = Path(__file__).parents[2]


def start_writer(
    job_id: str, trials: int, die_after: int = 0, most: int = 1 << 30
) -> subprocess.Popen[str]:
    """Starts this module as a process, with this process's environment."""
    numbers = [str(number) for number in (trials, die_after, most)]
    command = [sys.executable, "-m", "tests.db.writer", job_id, *numbers]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def cycles_of(job_id: str, number: int) -> int:
    """Falls now and then, so that some trials are a new best."""
    return 10_000 - 10 * number + 137 * (number % 5) + ord(job_id[-1])


def work(store: SqlStore, job_id: str, trials: int, most: int) -> None:
    token = store.claim(job_id)
    print(f"token {token}", flush=True)  # noqa: T201 - how it talks to the test
    done = store.trials(job_id)
    best = min((t.measurement.cycles for t in done if t.measurement), default=1 << 40)
    first = len(done)
    if not store.pending(job_id):
        store.commit(job_id, token, started=[pending(first)])
    for number in range(first, trials):
        if number - first == most:
            signal.pause()
        cycles = cycles_of(job_id, number)
        made = artifact(number + 1000 * ord(job_id[-1]))
        trial = ok(number, made, cycles)
        offered: Schedule | None = schedule(job_id, trial) if cycles < best else None
        best = min(best, cycles)
        store.commit(
            job_id,
            token,
            finished=[trial],
            started=[pending(number + 1)] if number + 1 < trials else [],
            artifacts=[made],
            schedule=offered,
            spent_s=float(number + 1),
        )
        print(number, flush=True)  # noqa: T201
    store.release(job_id, token, JobState.DONE)


class _Doom:
    def __init__(self, steps: int) -> None:
        self._left = steps

    def step(self, *_: object, **__: object) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in ("open", "os.rename") and "artifacts" in str(arguments[0]):
            self.step()


def _die_after(steps: int) -> None:
    from sqlalchemy import Engine, event

    doom = _Doom(steps)
    for moment in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(Engine, moment, doom.step)
    sys.addaudithook(doom.audit)


if __name__ == "__main__":
    opened = open_store()
    if int(sys.argv[3]):
        _die_after(int(sys.argv[3]))
    work(opened, sys.argv[1], int(sys.argv[2]), int(sys.argv[4]))
    opened.close()
