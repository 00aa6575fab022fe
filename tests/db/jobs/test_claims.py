"""Who may work on a job: the owner while it lives, the next one when it is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import psutil
import pytest
from sqlalchemy import select, update

from db import open_store
from db.jobs.claims import Owner, this_host, this_process
from db.models import JobRow
from db.sql_store import SqlStore
from tests.db.writer import start_writer
from tuner.conformance.patience import until
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, failed, ok, pending, spec
from tuner.errors import StoreError, UserError
from tuner.records.trial import JobState

pytestmark = pytest.mark.usefixtures("database")


def opened() -> closing[SqlStore]:
    return closing(open_store())


def new_job() -> str:
    with opened() as store:
        return store.create_job(spec(), SPACE, TOOLCHAIN).id


def set_owner(**columns: object) -> None:
    """Writes what a process elsewhere would have written."""
    with opened() as elsewhere, elsewhere.writing() as session:
        session.execute(update(JobRow).values(**columns))


def lease_end() -> float:
    with opened() as store, store.reading() as session:
        return session.scalars(select(JobRow.lease_expires_at)).one() or 0.0


def test_a_live_process_keeps_its_job_and_is_named() -> None:
    job_id = new_job()
    with start_writer(job_id, 10_000) as process, opened() as store:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(UserError, match=f"process {process.pid}"):
            store.claim(job_id)
        owner = store.summary(job_id).owner
        assert owner is not None
        assert owner.pid == process.pid
        process.kill()
        # The killed process is a zombie until it is waited for; that must not keep the job.
        until(lambda: not owner.is_alive)
        assert store.summary(job_id).interrupted
        assert store.claim(job_id) == 2
        process.wait()


def test_a_stopped_process_that_wakes_after_a_takeover_is_refused() -> None:
    job_id = new_job()
    with opened() as store:
        token = store.claim(job_id)
        store.commit(job_id, token, started=[pending(0)])
        # As if this process had been away longer than its lease, and another machine came.
        set_owner(fencing_token=token + 1, owner_host="lab7/1", owner_pid=1)
        with pytest.raises(StoreError, match="took it over"):
            store.commit(job_id, token, finished=[failed(0)])
        # The row of its object is missing: what is said first is still that the job is another's.
        with pytest.raises(StoreError, match="took it over"):
            store.commit(job_id, token, finished=[ok(1, artifact(1))])
        assert store.trials(job_id) == []


def test_an_owner_on_another_machine_is_believed_until_its_lease_ends() -> None:
    job_id = new_job()
    with opened() as store:
        store.claim(job_id)
        set_owner(owner_host="lab7/1", owner_pid=1, lease_expires_at=time.time() + 60)
        with pytest.raises(UserError, match="process 1 on lab7"):
            store.claim(job_id)
        set_owner(lease_expires_at=time.time() - 1)
        assert store.claim(job_id) == 2


def test_a_closed_store_leaves_its_job_interrupted_and_free() -> None:
    job_id = new_job()
    with opened() as store:
        token = store.claim(job_id)
        store.commit(job_id, token, started=[pending(0)])
    with opened() as store:
        summary = store.summary(job_id)
        assert (summary.job.state, summary.interrupted) == (JobState.RUNNING, True)
        assert store.claim(job_id) == token + 1
        assert store.pending(job_id) == [pending(0)]


def test_a_number_used_again_by_a_later_process_is_not_the_owner() -> None:
    me = this_process()
    assert me.is_alive is True
    assert me.is_this_process
    assert Owner(me.host, me.pid, me.started_at - 3600).is_alive is False
    assert Owner("elsewhere/1", me.pid, me.started_at).is_alive is None


def test_an_ended_process_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = Owner(this_host(), process.pid, psutil.Process(process.pid).create_time())
        assert owner.is_alive
        os.kill(process.pid, signal.SIGSTOP)
        assert owner.is_alive, "stopped is not dead: it may go on at any time"
        process.kill()
    assert owner.is_alive is False
