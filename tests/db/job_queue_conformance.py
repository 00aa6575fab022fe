"""What the queue must do on any database. A test module inherits the class, makes the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from random import Random

import pytest
from sqlalchemy import event, insert, update
from sqlalchemy.orm import Session

from db.jobs.queue import (
    WINDOW_S,
    ClaimedJob,
    _Lately,
    _service,
)
from db.models import JobRow
from db.service_models import TokenRow
from db.sql_store import SqlStore
from tuner.conformance.records import NEWER_TOOLCHAIN, SPACE, TOOLCHAIN, failed, spec
from tuner.errors import StoreError
from tuner.records.trial import JobRequest, JobState, Submission, Trial


def submitted(store: SqlStore, user: str = "ann", priority: int = 0) -> str:
    return store.create_job(spec(), SPACE, TOOLCHAIN, Submission(user, priority)).id


def taken(store: SqlStore, skip: tuple[str, ...] = ()) -> ClaimedJob:
    job = store.queue().take_next(skip)
    assert job is not None
    return job


def give_token(store: SqlStore, user: str, running_jobs: int | None, **changes: float) -> None:
    values = {
        "id": f"{user}{running_jobs}{len(changes)}",
        "name": user,
        "secret_digest": "0" * 64,
        "scopes": ["submit"],
        "quotas": {"running_jobs": running_jobs},
        "created_at": 0.0,
    }
    with store.writing() as session:
        session.execute(insert(TokenRow).values(**{**values, **changes}))


def just_ran(number: int, seconds: float) -> Trial:
    now = time.time()
    return replace(failed(number), started_at=now - seconds, finished_at=now)


class JobQueueConformance:
    """Inherit it and override :meth:`store`."""

    @pytest.fixture
    def store(self) -> Iterator[SqlStore]:
        raise NotImplementedError

    def test_a_job_is_taken_once_and_its_token_writes(self, store: SqlStore) -> None:
        job_id = submitted(store)
        job = taken(store)
        assert (job.id, job.user) == (job_id, "ann")
        assert store.queue().take_next() is None
        store.commit(job.id, job.token, finished=[failed(0)])
        store.release(job.id, job.token, JobState.DONE)
        assert store.queue().take_next() is None

    def test_urgent_jobs_go_first_then_the_oldest(self, store: SqlStore) -> None:
        old, new, urgent = submitted(store), submitted(store), submitted(store, priority=7)
        assert [taken(store).id for _ in range(3)] == [urgent, old, new]

    def test_users_take_turns(self, store: SqlStore) -> None:
        ann = [submitted(store, "ann") for _ in range(3)]
        bob = submitted(store, "bob")
        first = taken(store)
        assert first.id == ann[0]
        store.commit(first.id, first.token, finished=[just_ran(0, 5.0)])
        assert taken(store).id == bob

    def test_service_is_summed_up_as_time_goes_on(self, store: SqlStore) -> None:
        """As if all trials of the window had been added up, whenever somebody asks."""
        submitted(store, "ann")
        submitted(store, "bob")
        mine = [taken(store), taken(store)]
        random, lately, now = Random(3), _Lately(), 1e6
        for number in range(90):
            now += random.uniform(0.0, 25.0)
            job = random.choice(mine)
            trial = replace(failed(number), started_at=now - random.uniform(0.0, 9.0))
            store.commit(job.id, job.token, finished=[replace(trial, finished_at=now)])
            with store.reading() as session:
                got = lately.service(session, now)
                known, _, ever = _service(session, (now - WINDOW_S, now), (now, now), (0.0, now))
            assert got.keys() == known.keys()
            for user, service in got.items():
                assert service.trial_s == pytest.approx(known[user].trial_s)
                assert service.last_at == known[user].last_at
        assert sum(one.trial_s for one in got.values()) < sum(one.trial_s for one in ever.values())

    def test_jobs_of_the_command_line_are_left_to_it(self, store: SqlStore) -> None:
        store.create_job(spec(), SPACE, TOOLCHAIN)
        assert store.queue().take_next() is None

    def test_paused_and_skipped_jobs_wait(self, store: SqlStore) -> None:
        paused, skipped, other = (submitted(store) for _ in range(3))
        store.request(paused, JobRequest.PAUSE)
        assert taken(store, (skipped,)).id == other
        assert store.queue().take_next((skipped,)) is None
        store.request(paused, JobRequest.RESUME)
        assert taken(store).id == paused

    def test_a_job_left_behind_is_taken_up_and_its_old_token_refused(self, store: SqlStore) -> None:
        job_id = submitted(store)
        first = taken(store)
        self.abandon(store, job_id)
        second = taken(store)
        assert second.token > first.token
        with pytest.raises(StoreError):
            store.commit(job_id, first.token, finished=[failed(0)])

    @staticmethod
    def abandon(store: SqlStore, job_id: str, request: JobRequest | None = None) -> None:
        """As if the owner had died."""
        with store.writing() as session:
            values = {"owner_host": "lab7/1", "owner_pid": 1, "lease_expires_at": 1.0}
            session.execute(
                update(JobRow).where(JobRow.id == job_id).values(requested=request, **values)
            )

    @pytest.mark.parametrize(
        ("request_", "then", "paused"),
        [(JobRequest.CANCEL, JobState.CANCELLED, False), (JobRequest.PAUSE, JobState.QUEUED, True)],
    )
    def test_what_was_asked_of_an_owner_that_died_is_done(
        self, store: SqlStore, request_: JobRequest, then: JobState, paused: bool
    ) -> None:
        job_id = submitted(store)
        taken(store)
        self.abandon(store, job_id, request_)
        assert store.queue().take_next() is None
        job = store.job(job_id)
        assert (job.state, job.paused) == (then, paused)

    def test_a_quota_bounds_the_running_jobs_of_its_user(self, store: SqlStore) -> None:
        give_token(store, "ann", 2)
        for _ in range(3):
            submitted(store, "ann")
        bob = submitted(store, "bob", priority=-1)
        running = [taken(store) for _ in range(2)]
        assert {job.user for job in running} == {"ann"}
        assert taken(store).id == bob
        assert store.queue().take_next() is None
        store.release(running[0].id, running[0].token, JobState.DONE)
        assert taken(store).user == "ann"

    def test_the_most_generous_valid_token_counts(self, store: SqlStore) -> None:
        give_token(store, "ann", 1)
        give_token(store, "ann", 2)
        give_token(store, "ann", 9, revoked_at=1.0)
        give_token(store, "ann", None, expires_at=1.0)
        for _ in range(3):
            submitted(store, "ann")
        assert [store.queue().take_next() is not None for _ in range(3)] == [True, True, False]

    def test_many_takers_at_once_share_no_job_and_keep_quotas(self, store: SqlStore) -> None:
        give_token(store, "bob", 1)
        ids = {submitted(store, "ann") for _ in range(8)} | {
            submitted(store, "bob") for _ in range(4)
        }
        start = threading.Barrier(8)
        found: list[ClaimedJob] = []

        def take() -> None:
            start.wait()
            while (job := store.queue().take_next()) is not None:
                found.append(job)

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({job.id for job in found}) == len(found) == 9
        assert {job.id for job in found} <= ids
        assert sum(job.user == "bob" for job in found) == 1

    def test_a_job_is_held_as_soon_as_others_see_who_claimed_it(self, store: SqlStore) -> None:
        job = submitted(store, "ann")
        others = ThreadPoolExecutor(1)
        found: list[Future[ClaimedJob | None]] = []

        def take_too(job: str) -> ClaimedJob | None:
            return store.queue().take_next() if store.job(job).state is JobState.RUNNING else None

        def look(_: Session) -> None:
            if threading.current_thread() is threading.main_thread():
                found.append(others.submit(take_too, job))
                wait(found, timeout=5)

        event.listen(Session, "after_commit", look)
        try:
            assert store.queue().take_next() is not None
        finally:
            event.remove(Session, "after_commit", look)
            others.shutdown()
        assert [one.result() for one in found if one.result() is not None] == []

    def test_a_job_gives_way_to_another_users_and_to_urgent_ones(self, store: SqlStore) -> None:
        queue = store.queue()
        submitted(store, "ann")
        running = taken(store)
        assert not queue.must_give_way(running)
        submitted(store, "ann")
        store.commit(running.id, running.token, finished=[just_ran(0, 5.0)])
        assert not queue.must_give_way(running), "not to one's own of the same priority"
        submitted(store, "cid", priority=-1)
        assert not queue.must_give_way(running), "nor to a less urgent one"
        bob = submitted(store, "bob")
        assert queue.must_give_way(running)
        assert not queue.must_give_way(running, skip=(bob,))
        store.request(bob, JobRequest.CANCEL)
        submitted(store, "ann", priority=1)
        assert queue.must_give_way(running)

    def test_who_is_busy_with_jobs_of_a_toolchain_is_known(self, store: SqlStore) -> None:
        queue = store.queue()
        mine = submitted(store)
        job = store.create_job(spec(), SPACE, NEWER_TOOLCHAIN, Submission("bob"))
        assert not queue.runs_elsewhere_with_same_toolchain(mine)
        assert taken(store, (mine,)).id == job.id
        assert not queue.runs_elsewhere_with_same_toolchain(mine)
        other = submitted(store)
        assert taken(store, (mine,)).id == other
        assert queue.runs_elsewhere_with_same_toolchain(mine)
