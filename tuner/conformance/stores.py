"""The conformance suite of stores: what every :class:`tuner.keeping.store.TrialStore` must do.

A store's test module inherits the class and makes the store. Which schedule is best is a suite of
its own, :mod:`tuner.conformance.best`, because it is run over more than stores.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tuner.conformance.records import (
    SPACE,
    TOOLCHAIN,
    artifact,
    config,
    failed,
    measurement,
    ok,
    pending,
    problem,
    schedule,
    spec,
)
from tuner.errors import InternalError, StoreError, UserError
from tuner.keeping.best import lookup_of
from tuner.keeping.store import TrialStore
from tuner.problem.contract import Contract
from tuner.records.batch import Batch, BatchPlan, NetworkLayer, NewJob
from tuner.records.candidate import CacheState, Fidelity, Problem
from tuner.records.outcome import Outcome
from tuner.records.trial import (
    CountedTrial,
    Job,
    JobRequest,
    JobState,
    Promotion,
    RemainingGain,
    Submission,
)

NOW = 1_800_000_000.0


def tried(
    store: TrialStore,
    of: Problem,
    results: Sequence[tuple[int, int]],
    *,
    finished_at: float = NOW,
    cache: CacheState = "warm",
    fidelity: Fidelity = "model",
    submission: Submission | None = None,
) -> str:
    """A job on ``of`` with a trial for each pair of the number of a config and cycles."""
    job = store.create_job(spec(problem=of, cache=cache), SPACE, TOOLCHAIN, submission)
    token = store.claim(job.id)
    made = artifact(3)
    trials = [
        replace(
            ok(number, made),
            config=config(which),
            measurement=replace(measurement(cycles, fidelity), cache=cache),
            finished_at=finished_at,
        )
        for number, (which, cycles) in enumerate(results)
    ]
    waiting = [replace(pending(t.number), config=t.config) for t in trials]
    store.commit(job.id, token, started=waiting)
    store.commit(job.id, token, finished=trials, artifacts=[made])
    store.release(job.id, token, JobState.DONE)
    return job.id


PHONES = {**TOOLCHAIN, "phone": "soc 1"}
HANDED_OUT = Promotion(0, PHONES, started_at=5.0)
DONE = Promotion(
    0,
    PHONES,
    outcome=Outcome.OK,
    measurement=measurement(1500, "hardware"),
    started_at=5.0,
    finished_at=6.5,
)
CUT_OFF = Promotion(1, PHONES, Outcome.CUTOFF, error="slow", started_at=5.0, finished_at=6.0)


NETWORK = BatchPlan(
    name="three layers",
    kind="network",
    trials=40,
    seconds=2.5,
    workers=2,
    layers=(
        NetworkLayer("a", "conv", "d1", "gemm_u8", calls=1, macs=64, share_of_macs=0.5, steps=1),
        NetworkLayer("b", "conv", "d2", "gemm_u8", macs=64, share_of_macs=0.5, note="other scale"),
        NetworkLayer("c", "conv", "d1", "gemm_u8", calls=1, steps=0),
        NetworkLayer("d", "LayerNormalization", on_host=True, note="no integer form"),
    ),
)


def new_job(*layers: str) -> NewJob:
    """A private job for ``layers``."""
    asked = Submission("ann", owner="vision", private=True)
    return NewJob(spec(), SPACE, TOOLCHAIN, layers, asked)


class StoreConformance:
    """Inherit it and override :meth:`store` with one that is new and empty."""

    @pytest.fixture
    def store(self) -> Iterator[TrialStore]:
        raise NotImplementedError

    @pytest.fixture
    def job(self, store: TrialStore) -> Job:
        return store.create_job(spec(), SPACE, TOOLCHAIN)

    # Jobs
    def test_a_new_job_is_queued_and_read_back_as_it_was_given(self, store: TrialStore) -> None:
        asked = Submission("ann", priority=5, batch="b1")
        given = spec(objectives=("cycles", "vtcm_bytes", "code_bytes"))
        job = store.create_job(given, SPACE, TOOLCHAIN, asked)
        assert (job.spec, job.submission) == (given, asked)
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

    def test_one_holds_a_job_until_it_is_released_and_tokens_rise(
        self, store: TrialStore, job: Job
    ) -> None:
        first = store.claim(job.id)
        assert store.job(job.id).state is JobState.RUNNING
        with pytest.raises(UserError, match=job.id):
            store.claim(job.id)
        store.release(job.id, first, JobState.QUEUED)
        second = store.claim(job.id)
        assert second > first
        store.release(job.id, second, JobState.FAILED, "no valid trial")
        ended = store.job(job.id)
        assert (ended.state, ended.note) == (JobState.FAILED, "no valid trial")

    def test_a_stale_writer_is_refused_and_changes_nothing(
        self, store: TrialStore, job: Job
    ) -> None:
        stale = store.claim(job.id)
        store.release(job.id, stale, JobState.QUEUED)
        for state in (JobState.QUEUED, JobState.RUNNING):
            if state is JobState.RUNNING:
                store.claim(job.id)
            before = store.job(job.id)
            assert before.state is state
            with pytest.raises(StoreError, match=job.id):
                store.commit(job.id, stale, finished=[failed(0)], started=[pending(1)], spent_s=9.0)
            with pytest.raises(StoreError, match=job.id):
                store.release(job.id, stale, JobState.DONE)
            with pytest.raises(StoreError, match=job.id):
                store.heartbeat(job.id, stale)
            assert (store.trials(job.id), store.pending(job.id)) == ([], [])
            assert store.job(job.id) == before

    # Batches

    @pytest.fixture
    def network(self, store: TrialStore) -> Batch:
        """Two jobs of a private network of four layers, one of them on the host."""
        return store.create_batch(NETWORK, [new_job("a", "c"), new_job("b")])

    def test_a_batch_is_read_back_as_it_was_given(self, store: TrialStore, network: Batch) -> None:
        assert store.batch(network.id) == network
        assert {name: getattr(network, name) for name in vars(NETWORK)} == vars(NETWORK)
        assert [one.layers for one in network.members] == [("a", "c"), ("b",)]
        assert [one.occurrences for one in network.members] == [2, 1]
        assert (network.submission.owner, network.submission.private) == ("vision", True)
        for member in network.members:
            job = store.job(member.job)
            assert (job.state, job.submission.batch) == (JobState.QUEUED, network.id)
            assert job.spec == spec()

    def test_a_batch_is_private_as_a_whole_if_one_of_its_jobs_is(self, store: TrialStore) -> None:
        private = new_job("a")
        shared = replace(private, submission=replace(private.submission, private=False))
        batch = store.create_batch(BatchPlan(name="two"), [shared, private])
        jobs = [store.job(member.job).submission for member in batch.members]
        assert {one.private for one in (batch.submission, *jobs)} == {True}

    def test_a_batch_goes_by_the_start_of_its_id_and_is_no_job(
        self, store: TrialStore, network: Batch
    ) -> None:
        assert store.batch(network.id[:-1]) == network
        with pytest.raises(UserError, match="no batch 'zzz'") as refused:
            store.batch("zzz")
        assert network.id in refused.value.accepted
        with pytest.raises(UserError, match="is a job, not a network or set"):
            store.batch(network.members[0].job)
        with pytest.raises(UserError, match="is a batch of jobs, not a job"):
            store.job(network.id)

    def test_a_request_to_a_batch_is_one_to_all_its_jobs_that_have_not_ended(
        self, store: TrialStore, network: Batch
    ) -> None:
        first, second = (member.job for member in network.members)
        store.request_of_all(network.id, JobRequest.PAUSE)
        assert store.job(first).paused
        assert store.job(second).paused
        store.request_of_all(network.id, JobRequest.RESUME)
        assert not store.job(second).paused
        token = store.claim(first)
        store.release(first, token, JobState.DONE)
        assert store.request_of_all(network.id, JobRequest.CANCEL) == network
        assert [store.job(one).state for one in (first, second)] == [
            JobState.DONE,
            JobState.CANCELLED,
        ]
        store.request_of_all(network.id, JobRequest.CANCEL)
        with pytest.raises(UserError, match="can no longer resume"):
            store.request_of_all(network.id, JobRequest.RESUME)

    # Requests

    def test_a_job_nobody_works_on_obeys_at_once(self, store: TrialStore, job: Job) -> None:
        assert store.request(job.id, JobRequest.PAUSE).paused
        assert store.job(job.id).state is JobState.QUEUED
        assert store.request(job.id, JobRequest.PAUSE) == store.job(job.id)
        assert not store.request(job.id, JobRequest.RESUME).paused
        store.request(job.id, JobRequest.PAUSE)
        store.release(
            job.id, store.claim(job.id), JobState.QUEUED
        )  # whoever takes it up resumes it
        assert (store.job(job.id).paused, store.job(job.id).note) == (False, "")
        assert store.request(job.id, JobRequest.CANCEL).state is JobState.CANCELLED
        assert "request" in store.job(job.id).note

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

    def test_resuming_takes_a_pause_back_but_not_the_end(self, store: TrialStore, job: Job) -> None:
        token = store.claim(job.id)
        store.request(job.id, JobRequest.PAUSE)
        store.request(job.id, JobRequest.RESUME)
        assert store.heartbeat(job.id, token) is None
        for request_ in (JobRequest.CANCEL, JobRequest.RESUME, JobRequest.PAUSE):
            store.request(job.id, request_)
        assert store.heartbeat(job.id, token) is JobRequest.CANCEL
        store.release(job.id, token, JobState.DONE)  # it ended before it obeyed
        assert store.job(job.id).state is JobState.DONE

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
        other = store.create_job(spec(), SPACE, TOOLCHAIN)
        store.commit(job.id, token, started=[pending(2), pending(0)])
        store.commit(job.id, token, started=[pending(0), pending(1)])  # one of them again
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
        assert list(store.trials(job.id)[2].config) == list(config(2))
        assert store.pending(job.id) == [pending(3)]
        assert store.job(job.id).spent_s == 2.5
        assert (store.trials(other.id), store.pending(other.id)) == ([], [])
        store.release(job.id, token, JobState.QUEUED)
        assert store.pending(job.id) == [pending(3)]

    def test_every_outcome_can_be_stored(self, store: TrialStore, job: Job) -> None:
        lost = [failed(n, outcome) for n, outcome in enumerate(set(Outcome) - {Outcome.OK})]
        store.commit(job.id, store.claim(job.id), finished=lost)
        assert store.trials(job.id) == lost

    def test_events_are_kept_with_the_trials_that_a_model_measured(
        self, store: TrialStore, job: Job
    ) -> None:
        counts = {"loops": [0], "counts": [{"packets": 700, "wait_16_0": 3}]}
        made, token = artifact(1), store.claim(job.id)
        counted = replace(measurement(900), event_counts=counts)
        trials = [
            ok(0, made, measurement=counted),
            failed(1),
            ok(2, made, 1100),
            ok(3, made, measurement=replace(measurement(1200, "hardware"), event_counts=counts)),
            ok(4, made, origin="baseline:object", measurement=counted),
        ]
        store.commit(job.id, token, finished=trials, artifacts=[made])
        assert store.counted_trials(job.id) == [
            CountedTrial(0, made.digest, 900, counts),
            CountedTrial(2, made.digest, 1100, None),
        ]
        assert store.trials(job.id) == trials

    def test_a_trial_ends_once(self, store: TrialStore, job: Job) -> None:
        token = store.claim(job.id)
        store.commit(job.id, token, finished=[failed(0)])
        with pytest.raises(InternalError):
            store.commit(job.id, token, finished=[failed(0, Outcome.TIMEOUT)])
        with pytest.raises(InternalError):
            store.commit(job.id, token, started=[pending(0)])
        assert store.trials(job.id) == [failed(0)]
        assert store.pending(job.id) == []

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
        store.close()
        store.close()

    # Objectives

    def test_what_is_left_to_find_stays_until_it_is_estimated_anew(
        self, store: TrialStore, job: Job
    ) -> None:
        assert job.remaining is None
        token = store.claim(job.id)
        for estimate in (RemainingGain(0.25, 0.5), RemainingGain(0.0, 0.125)):
            store.commit(job.id, token, remaining=estimate)
            store.commit(job.id, token, spent_s=1.0)
            assert store.job(job.id).remaining == estimate

    # Artifacts

    def test_an_artifact_is_read_back_byte_for_byte(self, store: TrialStore, job: Job) -> None:
        made = artifact(3, loopnest=bytes(range(256)), schedule=b"")
        store.commit(job.id, store.claim(job.id), artifacts=[made])
        found = store.artifact(made.digest)
        assert found == made
        assert found.files == made.files

    def test_files_are_added_to_a_known_artifact_and_none_is_replaced(
        self, store: TrialStore, job: Job
    ) -> None:
        token = store.claim(job.id)
        store.commit(job.id, token, artifacts=[artifact(3, loopnest=b"first")])
        again = artifact(3, loopnest=b"second", assembly=b"{ nop }")
        store.commit(job.id, token, artifacts=[again])
        found = store.artifact(again.digest)
        assert found.files == {**again.files, "loopnest": b"first"}

    # Schedules

    def offer(
        self, store: TrialStore, cycles: int, toolchain: dict[str, str], **changes: Any
    ) -> None:
        """A job of its own whose only trial needs ``cycles``."""
        job = store.create_job(spec(), SPACE, toolchain)
        token = store.claim(job.id)
        made = artifact(cycles)
        trial = ok(0, made, cycles, config=config(cycles % 100))
        offered = schedule(job.id, trial, toolchain=toolchain, **changes)
        store.commit(job.id, token, finished=[trial], artifacts=[made], schedule=offered)
        store.release(job.id, token, JobState.DONE)

    def test_a_schedule_is_read_back_with_its_provenance(self, store: TrialStore, job: Job) -> None:
        token = store.claim(job.id)
        made = artifact(1)
        trial = ok(4, made)
        offered = schedule(job.id, trial)
        store.commit(job.id, token, finished=[trial], artifacts=[made], schedule=offered)
        assert store.best(lookup_of(problem())) == offered
        assert offered.provenance["toolchain"] == TOOLCHAIN

    def test_only_a_faster_schedule_replaces_the_best(self, store: TrialStore) -> None:
        for offered, expected in ((900, 900), (950, 900), (800, 800), (800, 800)):
            self.offer(store, offered, TOOLCHAIN)
            found = store.best(lookup_of(problem()))
            assert found is not None
            assert found.measurement.cycles == expected

    @pytest.mark.parametrize(
        "changes", [{"provenance": {"job": "x"}}, {"artifact_digest": "0" * 64}]
    )
    def test_a_schedule_nobody_could_trace_is_refused(
        self, store: TrialStore, changes: dict[str, Any]
    ) -> None:
        with pytest.raises(InternalError):
            self.offer(store, 500, TOOLCHAIN, **changes)
        assert store.best(lookup_of(problem())) is None

    # Promotions

    @pytest.fixture
    def promoting(self, store: TrialStore) -> tuple[Job, int]:
        """A job with two ok trials and a failed one, and its token."""
        job = store.create_job(spec(promote_to="phones", promote=3), SPACE, TOOLCHAIN)
        token = store.claim(job.id)
        made = [artifact(0), artifact(1)]
        trials = [ok(0, made[0]), ok(1, made[1], 900), failed(2)]
        store.commit(job.id, token, finished=trials, artifacts=made)
        return job, token

    def test_promotions_are_kept_pending_and_done(
        self, store: TrialStore, promoting: tuple[Job, int]
    ) -> None:
        job, token = promoting
        assert store.promotions(job.id) == []
        for started_at in (HANDED_OUT.started_at, 50.0):  # handed out again, it is the same
            store.commit(job.id, token, promotions=[replace(HANDED_OUT, started_at=started_at)])
            assert store.promotions(job.id) == [HANDED_OUT]
        with pytest.raises(StoreError):
            store.commit(job.id, token + 1, promotions=[DONE])
        store.commit(job.id, token, promotions=[CUT_OFF, DONE])
        assert store.promotions(job.id) == [DONE, CUT_OFF]
        trials = store.trials(job.id)
        assert [t.measurement and t.measurement.fidelity for t in trials] == [
            "model",
            "model",
            None,
        ]

    @pytest.mark.parametrize("again", [DONE, HANDED_OUT])
    def test_a_promotion_ends_once(
        self, store: TrialStore, promoting: tuple[Job, int], again: Promotion
    ) -> None:
        job, token = promoting
        store.commit(job.id, token, promotions=[DONE])
        with pytest.raises(InternalError):
            store.commit(job.id, token, promotions=[again])
        assert store.promotions(job.id) == [DONE]

    @pytest.mark.parametrize("trial", [2, 7])
    def test_only_good_trials_are_promoted(
        self, store: TrialStore, promoting: tuple[Job, int], trial: int
    ) -> None:
        job, token = promoting
        with pytest.raises(InternalError):
            store.commit(job.id, token, promotions=[Promotion(trial, PHONES, started_at=1.0)])
        assert store.promotions(job.id) == []

    def test_the_best_of_the_highest_fidelity_is_answered_and_named_apart(
        self, store: TrialStore, promoting: tuple[Job, int]
    ) -> None:
        job, token = promoting
        trial = store.trials(job.id)[0]
        low = schedule(job.id, trial)
        assert DONE.measurement is not None
        high = schedule(
            job.id,
            trial,
            measurement=DONE.measurement,
            provenance={**low.provenance, "toolchain": PHONES, "promoted": True},
        )
        store.commit(job.id, token, schedule=low)
        store.commit(job.id, token, promotions=[DONE], schedule=high)
        assert store.best(lookup_of(problem())) == high
        assert store.best(lookup_of(problem(), min_fidelity="hardware")) == high
        assert store.best(lookup_of(problem(), toolchain=TOOLCHAIN)) == low
        assert (low.public_id, high.public_id) == (f"{job.id}-0", f"{job.id}-0p")

    # Near jobs

    def near(self, store: TrialStore, least: int = 1, most: int = 9, **asked: Any) -> list[str]:
        before = asked.pop("before", NOW)
        audience = asked.pop("audience", "")
        found = store.near_jobs(
            spec(**asked), before=before, least=least, most=most, audience=audience
        )
        return [job.id for job in found]

    def test_near_jobs_are_those_with_most_results_of_the_nearest_problems(
        self, store: TrialStore
    ) -> None:
        near = tried(store, problem(m=250), [(1, 300), (2, 100), (4, 200)])
        tried(store, problem(m=250), [(1, 300), (2, 10)])
        tried(store, problem(m=16), [(8, 50)])
        far = tried(store, problem(m=1024), [(1, 70)])
        tried(store, problem(), [(1, 10)])
        assert self.near(store, most=2) == [near, far]
        assert self.near(store, least=3) == [near]
        assert store.job(near) == store.near_jobs(spec(), before=NOW, least=1, most=1)[0]

    def test_near_jobs_have_results_and_are_of_one_kernel_generator_and_cache(
        self, store: TrialStore
    ) -> None:
        store.create_job(spec(problem=problem(m=250)), SPACE, TOOLCHAIN)
        other = replace(problem().workload, kernel="add_u8")
        tried(store, replace(problem(), workload=other), [(1, 5)])
        newer = replace(problem().workload, version=2)
        tried(store, replace(problem(), workload=newer), [(1, 5)])
        cold = tried(store, problem(m=250), [(4, 5)], cache="cold")
        assert self.near(store) == []
        assert self.near(store, cache="cold") == [cold]
        elsewhere = tried(store, problem(contract=Contract.STRIDE), [(1, 5)])
        assert self.near(store) == [elsewhere]
        assert self.near(store, generator="intrinsics") == []

    def test_near_jobs_stay_what_they_were_at_a_time(self, store: TrialStore) -> None:
        first = tried(store, problem(m=250), [(1, 300)])
        later = tried(store, problem(m=250), [(2, 100), (1, 300)], finished_at=NOW + 5)
        assert self.near(store) == [first]
        assert self.near(store, before=NOW + 9) == [later]

    def test_near_jobs_that_are_private_are_for_their_owner(self, store: TrialStore) -> None:
        private = Submission("ann", owner="vision", private=True)
        hidden = tried(store, problem(m=250), [(1, 300)], submission=private)
        found = [self.near(store, audience=audience) for audience in ("vision", "ann", "")]
        assert found == [[hidden], [], []]
