"""The conductor by itself: what it takes up, gives back and ends. Nothing is compiled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update

from db import open_store
from db.jobs.queue import ClaimedJob
from db.models import JobRow
from db.sql_store import SqlStore
from service.conductor.conductor import Conductor
from service.conductor.troubles import Troubles
from tuner.conformance.patience import PATIENCE_S, until
from tuner.conformance.records import NEWER_TOOLCHAIN, SPACE, TOOLCHAIN, failed, spec
from tuner.errors import StoreError, ToolchainError, UserError
from tuner.records.trial import JobState, Submission
from tuner.search.stopping import StopRequest

pytestmark = pytest.mark.slow


def submitted(store: SqlStore, user: str = "ann", **how: int) -> str:
    return store.create_job(spec(), SPACE, TOOLCHAIN, Submission(user, **how)).id


class Work:
    """What is done with each job: runs until ``finish`` names it, or it is told to stop."""

    def __init__(self) -> None:
        self.finish: set[str] = set()
        self.begun: list[str] = []
        self.refused: list[str] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()

    def __call__(self, job: ClaimedJob, store: SqlStore, stop: StopRequest) -> JobState:
        with self._lock:
            self.begun.append(job.id)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        number = len(store.trials(job.id))
        while not (finished := job.id in self.finish) and not stop.wait(0.01):
            pass
        now = time.time()
        trial = replace(failed(number), started_at=now - 9, finished_at=now)
        try:
            store.commit(job.id, job.token, finished=[trial])
        except StoreError:
            self.refused.append(job.id)
            raise
        with self._lock:
            self._now -= 1
        if not finished:
            store.release(job.id, job.token, JobState.QUEUED, stop.reason)
            return JobState.QUEUED
        store.release(job.id, job.token, JobState.DONE)
        return JobState.DONE


class Broken:
    """Fails with ``error`` until it is :attr:`mended`, then ends the job."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.mended = False
        self.attempts = 0

    def __call__(self, job: ClaimedJob, store: SqlStore, stop: StopRequest) -> JobState:
        self.attempts += 1
        if not self.mended:
            raise self.error
        store.release(job.id, job.token, JobState.DONE)
        return JobState.DONE


@contextmanager
def conducting(conductor: Conductor) -> Iterator[threading.Event]:
    leave = threading.Event()
    thread = threading.Thread(target=conductor.run, args=(leave,))
    thread.start()
    try:
        yield leave
    finally:
        leave.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def is_in(store: SqlStore, job_id: str, state: JobState) -> Callable[[], bool]:
    return lambda: store.job(job_id).state is state


def test_as_many_jobs_run_at_once_as_there_are_slots(store: SqlStore) -> None:
    ids = [submitted(store) for _ in range(5)]
    work = Work()
    with conducting(Conductor(store, slots=2, run=work)):
        until(lambda: len(work.begun) == 2)
        work.finish.update(ids)
        for job_id in ids:
            until(is_in(store, job_id, JobState.DONE))
    assert set(work.begun[:2]) == set(ids[:2]), "their threads may begin in either order"
    assert sorted(work.begun) == sorted(ids)
    assert work.most_at_once == 2


def test_shutting_down_gives_jobs_back_with_what_they_found(store: SqlStore) -> None:
    job_id = submitted(store)
    work = Work()
    with conducting(Conductor(store, run=work)):
        until(lambda: work.begun == [job_id])
    job = store.job(job_id)
    assert (job.state, job.note) == (JobState.QUEUED, "waits: its conductor was shut down")
    assert len(store.trials(job_id)) == 1
    with conducting(Conductor(store, run=work)):
        until(lambda: work.begun == [job_id, job_id])


def test_a_job_gives_way_after_its_quantum_and_comes_back(store: SqlStore) -> None:
    long = submitted(store, "ann")
    work = Work()
    with conducting(Conductor(store, run=work, quantum_s=0.1)):
        until(lambda: work.begun == [long])
        short = submitted(store, "bob")
        work.finish.add(short)
        until(is_in(store, short, JobState.DONE))
        until(lambda: work.begun == [long, short, long])
        states = [e.data for e in store.events(long) if e.kind == "state"]
        assert [s["state"] for s in states] == ["queued", "running", "queued", "running"]
        assert states[2]["note"] == "waits: gave way to another job"


def test_a_fault_of_the_machine_is_waited_out(store: SqlStore) -> None:
    job_id = submitted(store)
    broken = Broken(ToolchainError("no compiler", next_step="run hvxtune setup"))
    with conducting(Conductor(store, run=broken, troubles=Troubles(first_wait_s=0.01))):
        until(lambda: "no compiler. run hvxtune setup" in store.job(job_id).note)
        until(lambda: broken.attempts >= 5)
        broken.mended = True
        until(is_in(store, job_id, JobState.DONE))


def test_a_fault_of_hvxtune_ends_the_job_after_a_few_attempts(store: SqlStore) -> None:
    job_id = submitted(store)
    broken = Broken(RuntimeError("a bug"))
    with conducting(Conductor(store, run=broken, troubles=Troubles(first_wait_s=0.01))):
        until(is_in(store, job_id, JobState.FAILED))
    assert "RuntimeError: a bug" in store.job(job_id).note
    assert broken.attempts == 4


def test_a_job_of_other_versions_is_left_to_others_then_fails(store: SqlStore) -> None:
    job_id = submitted(store)
    broken = Broken(UserError("began with llvm 20, here it is 21"))
    troubles = Troubles(misfit_wait_s=3600.0)
    with conducting(Conductor(store, run=broken, troubles=troubles)):
        until(lambda: "llvm" in store.job(job_id).note)
        assert store.job(job_id).state is JobState.QUEUED
        assert troubles.left_alone() == {job_id}
        troubles._jobs[job_id].again_at = 0.0  # the hour is over
        until(is_in(store, job_id, JobState.FAILED))
    assert "began with llvm 20" in store.job(job_id).note
    assert broken.attempts == 2


def test_a_job_of_other_versions_waits_for_a_busy_conductor_that_has_them(store: SqlStore) -> None:
    busy = store.create_job(spec(), SPACE, NEWER_TOOLCHAIN, Submission("bob"))
    token = store.claim(busy.id)
    job_id = store.create_job(spec(), SPACE, NEWER_TOOLCHAIN, Submission("ann")).id
    broken = Broken(UserError("began with llvm 21, here it is 20"))
    with conducting(Conductor(store, run=broken, troubles=Troubles(misfit_wait_s=0.05))):
        until(lambda: broken.attempts >= 4)
        assert store.job(job_id).state is not JobState.FAILED
        store.release(busy.id, token, JobState.DONE)
        until(is_in(store, job_id, JobState.FAILED))


def test_a_store_that_cannot_be_used_for_a_while_is_waited_out(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submitted(store)
    work = Work()
    work.finish.add(job_id)
    conductor = Conductor(store, run=work)
    take_next, failures = conductor._queue.take_next, [StoreError("locked")]

    def fail_once(*given: Any) -> ClaimedJob | None:
        if failures:
            raise failures.pop()
        return take_next(*given)

    monkeypatch.setattr(conductor._queue, "take_next", fail_once)
    with conducting(conductor):
        until(is_in(store, job_id, JobState.DONE))


def test_a_job_that_could_not_be_given_back_is_as_soon_as_it_can(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = StoreError("no space left on the disk", next_step="free some")
    job_id = submitted(store)
    release, failures = store.release, [full] * 3

    def refuse(*arguments: Any) -> None:
        if failures:
            raise failures.pop()
        release(*arguments)

    monkeypatch.setattr(store, "release", refuse)
    broken = Broken(full)
    troubles = Troubles(first_wait_s=3600.0)
    with conducting(Conductor(store, run=broken, troubles=troubles)):
        until(lambda: "no space left on the disk" in store.job(job_id).note)
        assert store.job(job_id).state is JobState.QUEUED
        broken.mended = True
        troubles._jobs[job_id].again_at = 0.0  # the hour is over
        until(is_in(store, job_id, JobState.DONE))
    assert failures == []


def as_if_elsewhere(store: SqlStore, *job_ids: str) -> None:
    """The jobs were claimed on another machine, whose leases have run out."""
    gone: dict[str, object] = {
        "state": JobState.RUNNING,
        "fencing_token": 1,
        "owner_host": "lab7/1",
        "owner_pid": 1,
        "owner_started_at": 1.0,
        "lease_expires_at": time.time() - 1,
    }
    with store.writing() as session:
        session.execute(update(JobRow).where(JobRow.id.in_(job_ids)).values(**gone))


def test_of_two_conductors_that_find_a_stale_claim_one_takes_the_job(store: SqlStore) -> None:
    ids = [submitted(store, user) for user in ("ann", "bob") for _ in range(6)]
    as_if_elsewhere(store, *ids)
    one, other = Work(), Work()
    for work in (one, other):
        work.finish.update(ids)
    with (
        closing(open_store()) as second,
        conducting(Conductor(store, slots=3, run=one)),
        conducting(Conductor(second, slots=3, run=other)),
    ):
        for job_id in ids:
            until(is_in(store, job_id, JobState.DONE))
    assert sorted([*one.begun, *other.begun]) == sorted(ids)
    assert [len(store.trials(job_id)) for job_id in ids] == [1] * len(ids)
    with store.reading() as session:
        assert set(session.scalars(select(JobRow.fencing_token))) == {2}


def test_a_conductor_whose_claim_was_taken_over_leaves_the_job_alone(store: SqlStore) -> None:
    job_id = submitted(store)
    slow, quick = Work(), Work()
    with conducting(Conductor(store, run=slow)):
        until(lambda: slow.begun == [job_id])
        as_if_elsewhere(store, job_id)  # it was away longer than its lease
        with closing(open_store()) as second, conducting(Conductor(second, run=quick)):
            until(lambda: quick.begun == [job_id])
            slow.finish.add(job_id)  # it comes back, and writes what it found with its old token
            until(lambda: slow.refused == [job_id])
            assert store.job(job_id).state is JobState.RUNNING
            assert store.trials(job_id) == []
            quick.finish.add(job_id)
            until(is_in(store, job_id, JobState.DONE))
    assert (slow.begun, quick.begun) == ([job_id], [job_id])
    assert len(store.trials(job_id)) == 1
    assert store.job(job_id).note == ""
