"""What queries about jobs must find on any database. A test module inherits the class."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from db.jobs.batches import batch_progress, listed_page
from db.jobs.events import event_counts, told_after
from db.jobs.new_job import RequestKey, answer_once, insert_job, kept_answer
from db.jobs.queries import JobFilters, job_overview, job_overviews, jobs_page
from db.jobs.trials import (
    each_trial,
    find_trial,
    key_trials,
    ranked_trials,
    trial_points,
    trials_page,
)
from db.models import BatchRow
from db.sql_store import SqlStore
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, failed, ok, pending, spec
from tuner.conformance.stores import NETWORK, new_job
from tuner.errors import StoreError, UserError
from tuner.jobs.batch_progress import BatchProgress
from tuner.problem.contract import Contract
from tuner.records.batch import BatchPlan
from tuner.records.candidate import Cycles
from tuner.records.outcome import Outcome
from tuner.records.trial import JobRequest, JobState, Submission


class JobQueriesConformance:
    """Inherit it and override :meth:`store`."""

    @pytest.fixture
    def store(self) -> Iterator[SqlStore]:
        raise NotImplementedError

    @pytest.fixture
    def job(self, store: SqlStore) -> str:
        """Trials 0, 1 and 3 of 1000, 900 and 950 cycles; 2 failed."""
        job_id = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann")).id
        token = store.claim(job_id)
        for number, cycles in ((1, 900), (0, 1000), (3, 950)):
            made = artifact(number)
            origin = {0: "default", 1: "textbook"}.get(number, "tpe")
            trial = ok(number, made, cycles, origin=origin)
            store.commit(job_id, token, finished=[trial], artifacts=[made])
        store.commit(job_id, token, finished=[failed(2)])
        store.release(job_id, token, JobState.DONE)
        return job_id

    def test_a_feed_tells_how_the_job_stood_at_each_event(self, store: SqlStore, job: str) -> None:
        told = told_after(store, job, 0, 100)
        stood = [(t.event.sequence, t.finished, t.best_cycles) for t in told]
        assert stood == [
            (1, 0, None),
            (2, 0, None),
            (3, 1, 900),
            (4, 2, 900),
            (5, 3, 900),
            (6, 4, 900),
            (7, 4, 900),
        ]
        assert [t.trial.number for t in told if t.trial] == [1, 0, 3, 2]
        for behind in range(8):
            assert told_after(store, job, behind, 100) == told[behind:]
            assert told_after(store, job, behind, 2) == told[behind : behind + 2]
        assert event_counts(store, [job, "none"]) == {job: 7}

    def test_pages_and_filters(self, store: SqlStore, job: str) -> None:
        waiting = [store.create_job(spec(), SPACE, TOOLCHAIN, Submission("bob")).id for _ in "abc"]
        newest_first = [*waiting[::-1], job]
        assert [one.summary.job.id for one in jobs_page(store, JobFilters(), None, 9)] == (
            newest_first
        )
        second = jobs_page(store, JobFilters(), None, 2)[-1].summary.job
        rest = jobs_page(store, JobFilters(), (second.created_at, second.id), 9)
        assert [one.summary.job.id for one in rest] == newest_first[2:]
        everything = JobFilters(
            state=JobState.DONE,
            kernel="gemm_u8",
            target="hexagon-v68-sm8350",
            contract=Contract.STATIC,
            user="ann",
            interrupted=False,
        )
        (found,) = jobs_page(store, everything, None, 9)
        assert found == job_overview(store, job)
        assert (found.default, found.textbook) == (Cycles(1000), Cycles(900))
        assert found.summary.best_cycles == 900
        assert jobs_page(store, JobFilters(batch="none"), None, 9) == []
        assert job_overviews(store, [job, "none", waiting[0]]) == [
            found,
            job_overview(store, waiting[0]),
        ]

    def test_a_batch_is_one_row_where_its_newest_job_is(self, store: SqlStore, job: str) -> None:
        batch = store.create_batch(NETWORK, [new_job("a", "c"), new_job("b")])
        first, second = (member.job for member in batch.members)
        late = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("bob")).id

        def listed(before: tuple[float, str] | None = None, limit: int = 9, **wanted: Any) -> Any:
            return listed_page(store, JobFilters(**wanted), before, limit)

        def ids(rows: Any) -> list[str]:
            return [
                one.batch.id if isinstance(one, BatchProgress) else one.job.id for _, one in rows
            ]

        assert ids(listed()) == [late, batch.id, job]
        assert listed()[2][1] == job_overview(store, job)
        pages = [listed(limit=1)]
        while pages[-1]:
            pages.append(listed(pages[-1][-1][0], limit=1))
        assert [ids(page) for page in pages] == [[late], [batch.id], [job], []]
        store.request(second, JobRequest.CANCEL)
        for filters, expected in (
            ({"state": JobState.CANCELLED}, [batch.id]),
            ({"state": JobState.QUEUED}, [late, batch.id]),
            ({"state": JobState.DONE, "kernel": "gemm_u8"}, [job]),
            ({"kernel": "gemm_u8", "contract": Contract.STATIC}, [late, batch.id, job]),
            ({"user": "ann", "interrupted": False}, [batch.id, job]),
            ({"interrupted": True}, []),
        ):
            assert ids(listed(**filters)) == expected, filters
        assert ids(listed_page(store.seen_by("bob"), JobFilters(), None, 9)) == [late, job]
        assert store.seen_by("vision").batch(batch.id) == batch
        with pytest.raises(UserError, match="no batch"):
            store.seen_by("bob").batch(batch.id)
        assert store.job(first).state is JobState.QUEUED

    def test_the_progress_of_a_batch_counts_each_job_as_often_as_it_has_layers(
        self, store: SqlStore
    ) -> None:
        batch = store.create_batch(
            BatchPlan(name="net"), [new_job("a", "c"), new_job("b"), new_job("d")]
        )
        assert batch_progress(store, batch.id[:9]).state == "queued"
        for member, cycles in zip(batch.members[:2], ((1000, 400), (300, 300)), strict=True):
            token = store.claim(member.job)
            made = [artifact(1), artifact(2)]
            trials = [
                ok(0, made[0], cycles[0], origin="textbook"),
                ok(1, made[1], cycles[1]),
                failed(2),
            ]
            store.commit(member.job, token, finished=trials, artifacts=made, started=[pending(3)])
            if member is batch.members[0]:
                store.release(member.job, token, JobState.DONE)
        found = batch_progress(store, batch.id)
        assert (found.state, found.open) == ("running", True)
        assert (found.finished, found.ok, found.pending) == (6, 4, 2)
        totals = found.totals
        assert (totals.textbook_cycles, totals.best_cycles) == (2 * 1000 + 300, 2 * 400 + 300)
        assert (totals.layers, totals.of_layers) == (3, 4)
        store.release(batch.members[1].job, token, JobState.FAILED)
        assert batch_progress(store, batch.id).state == "queued"
        store.request(batch.members[2].job, JobRequest.PAUSE)
        assert batch_progress(store, batch.id).state == "paused"
        before = batch_progress(store, batch.id).version
        store.request_of_all(batch.id, JobRequest.CANCEL)
        ended = batch_progress(store, batch.id)
        assert (ended.state, ended.open, ended.version != before) == ("done", False, True)

    def test_a_record_that_is_none_is_told_as_damage(self, store: SqlStore) -> None:
        batch = store.create_batch(NETWORK, [new_job("a")])
        good = batch.document()
        for wrong in (
            {**good, "members": []},
            {**good, "members": [{"job": 7, "layers": ["a"]}]},
            {**good, "trials": True},
            {**good, "more": 1},
            {**good, "layers": []},
            {**good, "layers": [{**good["layers"][0], "calls": 0}]},
            [],
        ):
            with store.writing() as session:
                session.execute(update(BatchRow).values(document=wrong))
            with pytest.raises(StoreError, match=f"batch {batch.id}"):
                store.batch(batch.id)

    def test_trials_by_number_and_those_looked_at_first(self, store: SqlStore, job: str) -> None:
        assert [t.number for t in each_trial(store, job, None)] == [0, 1, 2, 3]
        assert [t.number for t in trials_page(store, job, Outcome.OK, 0, 1)] == [1]
        found = key_trials(store, job)
        assert [t.number for t in (found.default, found.textbook, found.best) if t] == [0, 1, 1]
        assert {name: t.number for name, t in found.by_name.items()} == {
            "default": 0, "textbook": 1, "best": 1,
        }  # fmt: skip
        nothing = store.create_job(spec(), SPACE, TOOLCHAIN).id
        assert not key_trials(store, nothing).by_name

    def test_a_textbook_whose_object_is_the_unscheduled_default_is_none(
        self, store: SqlStore
    ) -> None:
        for naive in (True, False):
            job_id = store.create_job(
                spec(generator="halide-auto" if naive else "halide"), SPACE, TOOLCHAIN
            ).id
            token, made = store.claim(job_id), [artifact(1), artifact(2)]
            trials = [
                ok(0, made[0], 900, origin="textbook"),
                replace(ok(1, made[0], 900, origin="default"), duplicate_of=0),
                ok(2, made[1], 300, origin="tpe"),
            ]
            store.commit(job_id, token, finished=trials, artifacts=made)
            found = job_overview(store, job_id)
            assert found.textbook_is_unscheduled is naive
            assert found.textbook == (None if naive else Cycles(900))
            assert (found.default, found.summary.best_cycles) == (Cycles(900), 300)
            assert (found.headline is None) is naive
            assert ("textbook" in key_trials(store, job_id).by_name) is not naive

    def test_trials_by_rank_and_as_points(self, store: SqlStore, job: str) -> None:
        assert [t.number for t in ranked_trials(store, job)] == [3, 2, 1, 0]
        assert [t.number for t in ranked_trials(store, job, by_cycles=True)] == [1, 3, 0, 2]
        page = ranked_trials(store, job, by_cycles=True, outcome=Outcome.OK, offset=1, limit=1)
        assert [t.number for t in page] == [3]
        assert {(p.number, p.cycles) for p in trial_points(store, job)} == {
            (0, 1000), (1, 900), (2, None), (3, 950),
        }  # fmt: skip
        found = find_trial(store, job, 2)
        assert found is not None
        assert found.outcome is not Outcome.OK
        assert find_trial(store, job, 4) is None

    def test_of_requests_with_one_key_at_once_one_is_answered_anew(self, store: SqlStore) -> None:
        key = RequestKey("token", "key", "0" * 64)
        start = threading.Barrier(6)
        answers: list[Mapping[str, Any]] = []
        made: list[str] = []

        def ask() -> None:
            start.wait()
            with store.writing() as session:

                def make() -> dict[str, Any]:
                    job = insert_job(session, spec(), SPACE, TOOLCHAIN, Submission("ann"))
                    made.append(job.id)
                    time.sleep(0.05)
                    return {"job": job.id}

                before = answer_once(session, key, 201, make)
                answers.append({"job": made[0]} if before is None else before.answer)

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == len(store.jobs()) == 1
        assert answers == [{"job": made[0]}] * 6

    def test_a_request_that_failed_leaves_its_key_free(self, store: SqlStore) -> None:
        key = RequestKey("token", "key", "0" * 64)

        def fail() -> dict[str, Any]:
            raise LookupError

        with pytest.raises(LookupError), store.writing() as session:
            answer_once(session, key, 201, fail)
        with store.reading() as session:
            assert kept_answer(session, key) is None
