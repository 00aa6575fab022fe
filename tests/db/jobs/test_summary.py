"""Jobs at a glance."""

from __future__ import annotations

from contextlib import closing

import pytest

from db import open_store
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, failed, ok, pending, spec
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState

pytestmark = pytest.mark.usefixtures("database")


def test_a_summary_counts_outcomes_and_names_the_best() -> None:
    with closing(open_store()) as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN)
        token = store.claim(job.id)
        made = [artifact(1), artifact(2)]
        store.commit(
            job.id,
            token,
            finished=[
                ok(0, made[0], 900),
                ok(1, made[1], 700),
                failed(2),
                failed(3),
                failed(4, Outcome.TIMEOUT),
            ],
            started=[pending(5), pending(6)],
            artifacts=made,
        )
        summary = store.summary(job.id[:9])
        assert summary.job == store.job(job.id)
        assert summary.outcomes == {
            Outcome.OK: 2,
            Outcome.COMPILE_ERROR: 2,
            Outcome.TIMEOUT: 1,
        }
        assert (summary.finished, summary.pending, summary.best_cycles) == (5, 2, 700)
        assert summary.owner is not None
        assert summary.owner.is_this_process
        assert not summary.interrupted
        store.release(job.id, token, JobState.DONE)
        assert store.summary(job.id).owner is None


def test_a_job_is_counted_until_it_has_ended() -> None:
    with closing(open_store()) as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN)
        token = store.claim(job.id)
        store.commit(job.id, token, finished=[failed(0)])
        assert store.summary(job.id).finished == 1
        store.commit(job.id, token, finished=[ok(1, artifact(1), 700)], artifacts=[artifact(1)])
        store.release(job.id, token, JobState.DONE)
        for _ in range(2):
            summary = store.summary(job.id)
            assert (summary.finished, summary.best_cycles) == (2, 700)


def test_summaries_are_newest_first_and_include_jobs_without_trials() -> None:
    with closing(open_store()) as store:
        jobs = [store.create_job(spec(seed=n), SPACE, TOOLCHAIN) for n in range(3)]
        store.commit(jobs[0].id, store.claim(jobs[0].id), finished=[failed(0)])
        listed = store.summaries(limit=3)
        assert [s.job.spec.seed for s in listed] == [2, 1, 0]
        assert [s.finished for s in listed] == [0, 0, 1]
        assert [s.best_cycles for s in listed] == [None, None, None]
        assert len(store.summaries(limit=1)) == 1


def test_the_space_of_a_job_is_kept() -> None:
    with closing(open_store()) as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN)
        assert store.space(job.id) == SPACE
        assert store.space(job.id).digest == job.space_digest
