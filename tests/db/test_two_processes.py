"""Several processes on one database."""

from __future__ import annotations

import subprocess
import sys

import pytest

from db import open_store
from tests.db.writer import ROOT, cycles_of, start_writer
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, problem, spec
from tuner.keeping.best import lookup_of

TRIALS = 40


@pytest.mark.slow
def test_two_processes_commit_at_once_and_lose_nothing() -> None:
    store = open_store()
    jobs = [store.create_job(spec(), SPACE, TOOLCHAIN).id for _ in range(2)]
    writers = [start_writer(job_id, TRIALS) for job_id in jobs]
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]
    for job_id in jobs:
        seed = 1000 * ord(job_id[-1])
        assert store.trials(job_id) == [
            ok(n, artifact(n + seed), cycles_of(job_id, n)) for n in range(TRIALS)
        ]
    best = store.best(lookup_of(problem()))
    assert best is not None
    assert best.measurement.cycles == min(cycles_of(j, n) for j in jobs for n in range(TRIALS))
    store.close()


@pytest.mark.slow
def test_a_new_database_may_be_opened_by_several_processes_at_once() -> None:
    program = "from db import open_store; s = open_store(); print(len(s.jobs())); s.close()"
    command = [sys.executable, "-c", program]
    openers = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        for _ in range(4)
    ]
    assert [opener.communicate() for opener in openers] == [("0\n", "")] * 4


def test_readers_see_the_last_commit_while_a_writer_is_at_work() -> None:
    store, other = open_store(), open_store()
    job = store.create_job(spec(), SPACE, TOOLCHAIN)
    with store.writing() as session:
        session.connection().exec_driver_sql("UPDATE jobs SET note = 'half-way'")
        assert other.job(job.id).note == ""
    assert other.job(job.id).note == "half-way"
    store.close()
    other.close()
