"""What every trial store must do. A store's test module inherits the class and makes the store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.tuner.near_trials_conformance import NearTrialsConformance
from tests.tuner.objectives_conformance import ObjectivesConformance
from tests.tuner.promotion_conformance import PromotionConformance
from tests.tuner.sample_records import (
    SPACE,
    TOOLCHAIN,
    artifact,
    failed,
    ok,
    pending,
    spec,
)
from tests.tuner.schedule_conformance import ScheduleConformance
from tuner.errors import InternalError, StoreError, UserError
from tuner.records.outcome import Outcome
from tuner.records.trial import Job, JobRequest, JobState, Submission
from tuner.store import TrialStore


class StoreConformance(
    NearTrialsConformance, PromotionConformance, ObjectivesConformance, ScheduleConformance
):
    """Inherit it and override :meth:`store`."""

    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        raise NotImplementedError

    @pytest.fixture
    def job(self, store: TrialStore) -> Job:
        return store.create_job(spec(), SPACE, TOOLCHAIN)

    # Jobs
    def test_a_new_job_is_queued_and_read_back_as_it_was_given(self, store: TrialStore) -> None:
        job = store.create_job(spec(), SPACE, TOOLCHAIN)
        assert job.spec == spec()
        assert list(job.spec.problem.workload.params) == ["m", "n", "k"]
        assert (job.state, job.spent_s, job.note) == (JobState.QUEUED, 0.0, "")
        assert job.toolchain == TOOLCHAIN
        assert job.space_digest == SPACE.digest
        assert store.job(job.id) == job

    def test_jobs_are_listed_newest_first(self, store: TrialStore) -> None:
        made = [store.create_job(spec(seed=i), SPACE, TOOLCHAIN) for i in range(4)]
        assert store.jobs() == made[::-1]
        assert store.jobs(limit=2) == [made[3], made[2]]

    def test_an_unknown_job_is_refused_and_known_ones_are_named(
        self, store: TrialStore, job: Job
    ) -> None:
        with pytest.raises(UserError, match="no job 'zzz'") as refused:
            store.job("zzz")
        assert job.id in refused.value.accepted
        for use in (store.claim, store.trials, store.pending, store.promotions):
            with pytest.raises(UserError, match="no job 'zzz'"):
                use("zzz")

    def test_the_start_of_an_id_is_enough_if_it_is_the_only_one(self, store: TrialStore) -> None:
        job = store.create_job(spec(), SPACE, TOOLCHAIN)
        assert store.job(job.id[:1]) == job
        other = store.create_job(spec(), SPACE, TOOLCHAIN)
        with pytest.raises(UserError, match="several jobs") as refused:
            store.job(job.id[:1])
        assert {job.id, other.id} <= set(refused.value.accepted.split(", "))
        with pytest.raises(UserError, match="no job"):
            store.job("")

    # Claims

    def test_a_claim_sets_the_job_running_and_release_its_last_state(
        self, store: TrialStore, job: Job
    ) -> None:
        token = store.claim(job.id)
        assert store.job(job.id).state is JobState.RUNNING
        store.release(job.id, token, JobState.FAILED, "no valid trial")
        ended = store.job(job.id)
        assert (ended.state, ended.note) == (JobState.FAILED, "no valid trial")

    def test_a_held_job_cannot_be_claimed_and_tokens_rise(
        self, store: TrialStore, job: Job
    ) -> None:
        first = store.claim(job.id)
        with pytest.raises(UserError, match=job.id):
            store.claim(job.id)
        store.release(job.id, first, JobState.QUEUED)
        assert store.claim(job.id) > first

    def test_a_stale_writer_is_refused_and_changes_nothing(
        self, store: TrialStore, job: Job
    ) -> None:
        stale = store.claim(job.id)
        store.release(job.id, stale, JobState.QUEUED)
        self.assert_refused(store, job, stale)
        store.claim(job.id)
        self.assert_refused(store, job, stale)

    @staticmethod
    def assert_refused(store: TrialStore, job: Job, token: int) -> None:
        before = store.job(job.id)
        with pytest.raises(StoreError, match=job.id):
            store.commit(job.id, token, finished=[failed(0)], started=[pending(1)], spent_s=9.0)
        with pytest.raises(StoreError, match=job.id):
            store.release(job.id, token, JobState.DONE)
        with pytest.raises(StoreError, match=job.id):
            store.heartbeat(job.id, token)
        assert store.trials(job.id) == []
        assert store.pending(job.id) == []
        assert store.job(job.id) == before

    # Requests

    def test_who_asked_for_a_job_is_kept(self, store: TrialStore) -> None:
        asked = Submission("ann", priority=5, batch="b1")
        job = store.create_job(spec(), SPACE, TOOLCHAIN, asked)
        assert store.job(job.id).submission == asked

    def test_a_job_nobody_works_on_obeys_at_once(self, store: TrialStore, job: Job) -> None:
        assert store.request(job.id, JobRequest.PAUSE).paused
        assert store.job(job.id).state is JobState.QUEUED
        assert store.request(job.id, JobRequest.PAUSE) == store.job(job.id)
        assert not store.request(job.id, JobRequest.RESUME).paused
        assert store.request(job.id, JobRequest.CANCEL).state is JobState.CANCELLED
        assert "request" in store.job(job.id).note

    def test_whoever_takes_a_paused_job_up_resumes_it(self, store: TrialStore, job: Job) -> None:
        store.request(job.id, JobRequest.PAUSE)
        store.claim(job.id)
        assert (store.job(job.id).paused, store.job(job.id).note) == (False, "")

    @pytest.mark.parametrize("request_", [JobRequest.CANCEL, JobRequest.PAUSE])
    def test_the_holder_hears_of_a_request_and_obeys_by_releasing(
        self, store: TrialStore, job: Job, request_: JobRequest
    ) -> None:
        token = store.claim(job.id)
        assert store.heartbeat(job.id, token) is None
        assert store.request(job.id, request_).state is JobState.RUNNING
        assert store.heartbeat(job.id, token) is request_
        store.release(job.id, token, JobState.QUEUED, "stopped")
        released = store.job(job.id)
        cancelled = request_ is JobRequest.CANCEL
        assert released.state is (JobState.CANCELLED if cancelled else JobState.QUEUED)
        assert released.paused is not cancelled
        if not cancelled:  # what was asked of the last holder is not asked of the next
            assert store.heartbeat(job.id, store.claim(job.id)) is None

    def test_a_job_that_ends_before_it_obeys_has_ended(self, store: TrialStore, job: Job) -> None:
        token = store.claim(job.id)
        store.request(job.id, JobRequest.CANCEL)
        store.release(job.id, token, JobState.DONE)
        assert store.job(job.id).state is JobState.DONE

    def test_resuming_takes_a_pause_back_but_not_the_end(self, store: TrialStore, job: Job) -> None:
        token = store.claim(job.id)
        store.request(job.id, JobRequest.PAUSE)
        store.request(job.id, JobRequest.RESUME)
        assert store.heartbeat(job.id, token) is None
        for request_ in (JobRequest.CANCEL, JobRequest.RESUME, JobRequest.PAUSE):
            store.request(job.id, request_)
        assert store.heartbeat(job.id, token) is JobRequest.CANCEL

    @pytest.mark.parametrize("ended", [JobState.DONE, JobState.FAILED, JobState.CANCELLED])
    def test_nothing_can_be_asked_of_a_job_that_has_ended(
        self, store: TrialStore, job: Job, ended: JobState
    ) -> None:
        store.release(job.id, store.claim(job.id), ended)
        for request_ in JobRequest:
            if (ended, request_) == (JobState.CANCELLED, JobRequest.CANCEL):
                assert store.request(job.id, request_).state is JobState.CANCELLED
            else:
                with pytest.raises(UserError, match=f"{job.id} is {ended}"):
                    store.request(job.id, request_)

    # Trials

    def test_trials_are_handed_out_finished_and_read_back_as_they_were(
        self, store: TrialStore, job: Job
    ) -> None:
        token = store.claim(job.id)
        store.commit(job.id, token, started=[pending(2), pending(0), pending(1)])
        assert store.pending(job.id) == [pending(0), pending(1), pending(2)]
        made = artifact(1)
        done = [
            ok(2, made),
            failed(0),
            ok(1, made, duplicate_of=2, error=None),
        ]
        store.commit(
            job.id, token, finished=done, started=[pending(3)], artifacts=[made], spent_s=2.5
        )
        assert store.trials(job.id) == sorted(done, key=lambda t: t.number)
        assert list(store.trials(job.id)[2].config) == ["tile_m", "order"]
        assert store.pending(job.id) == [pending(3)]
        assert store.job(job.id).spent_s == 2.5

    @pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.OK])
    def test_every_outcome_can_be_stored(
        self, store: TrialStore, job: Job, outcome: Outcome
    ) -> None:
        token = store.claim(job.id)
        store.commit(job.id, token, finished=[failed(0, outcome)])
        assert store.trials(job.id) == [failed(0, outcome)]

    def test_a_trial_ends_once(self, store: TrialStore, job: Job) -> None:
        token = store.claim(job.id)
        store.commit(job.id, token, finished=[failed(0)])
        with pytest.raises(InternalError):
            store.commit(job.id, token, finished=[failed(0, Outcome.TIMEOUT)])
        with pytest.raises(InternalError):
            store.commit(job.id, token, started=[pending(0)])
        assert store.trials(job.id) == [failed(0)]
        assert store.pending(job.id) == []

    def test_a_pending_trial_may_be_handed_out_again(self, store: TrialStore, job: Job) -> None:
        token = store.claim(job.id)
        store.commit(job.id, token, started=[pending(0)])
        store.commit(job.id, token, started=[pending(0), pending(1)])
        assert store.pending(job.id) == [pending(0), pending(1)]

    def test_pending_trials_outlive_the_claim(self, store: TrialStore, job: Job) -> None:
        token = store.claim(job.id)
        store.commit(job.id, token, started=[pending(0)])
        store.release(job.id, token, JobState.QUEUED)
        assert store.pending(job.id) == [pending(0)]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"finished": [ok(1, artifact(9))]},
            {"finished": [ok(1, artifact(1), artifact_digest=None)]},
            {"finished": [ok(1, artifact(1), duplicate_of=77)]},
            {"artifacts": [replace(artifact(1), digest="0" * 64)]},
        ],
        ids=["unknown artifact", "ok without artifact", "duplicate of none", "misnamed artifact"],
    )
    def test_a_commit_that_breaks_a_rule_leaves_no_trace(
        self, store: TrialStore, job: Job, wrong: dict[str, Any]
    ) -> None:
        token = store.claim(job.id)
        store.commit(job.id, token, started=[pending(0), pending(1)], artifacts=[artifact(1)])
        finished = [failed(0), *wrong.get("finished", ())]
        with pytest.raises(InternalError):
            store.commit(
                job.id,
                token,
                finished=finished,
                started=[pending(2)],
                artifacts=[artifact(2), *wrong.get("artifacts", ())],
                spent_s=5.0,
            )
        assert store.trials(job.id) == []
        assert store.pending(job.id) == [pending(0), pending(1)]
        assert store.job(job.id).spent_s == 0.0
        with pytest.raises(UserError):
            store.artifact(artifact(2).digest)

    def test_jobs_do_not_see_each_others_trials(self, store: TrialStore, job: Job) -> None:
        other = store.create_job(spec(), SPACE, TOOLCHAIN)
        store.commit(job.id, store.claim(job.id), finished=[failed(0)])
        store.commit(other.id, store.claim(other.id), started=[pending(0)])
        assert (store.trials(job.id), store.pending(job.id)) == ([failed(0)], [])
        assert (store.trials(other.id), store.pending(other.id)) == ([], [pending(0)])

    def test_threads_may_commit_at_once(self, store: TrialStore, job: Job) -> None:
        token = store.claim(job.id)

        def commit(first: int) -> None:
            for number in range(first, first + 10):
                made = artifact(number)
                store.commit(job.id, token, finished=[ok(number, made)], artifacts=[made])

        threads = [threading.Thread(target=commit, args=(10 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.trials(job.id) == [ok(n, artifact(n)) for n in range(40)]

    def test_closing_twice_is_harmless(self, store: TrialStore) -> None:
        store.close()
        store.close()
