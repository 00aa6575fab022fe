"""Whose rows they are, on every database: what is hidden, and what is sent of the ends of jobs."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from db import pipelines
from db.audience import EVERYBODYS, Viewer
from db.jobs.annotations import annotate
from db.jobs.queries import JobFilters, jobs_page
from db.models import (
    AnnotationRow,
    JobEventRow,
    JobRow,
    JobTagRow,
    ScheduleRow,
    TrialRow,
)
from db.sql_store import SqlStore
from tests.service.stored import problem, store_schedule
from tuner.errors import UserError
from tuner.keeping.best import lookup_of
from tuner.records.trial import JobRequest, Submission

ANNOTATIONS = (AnnotationRow, JobTagRow)
PRIVATE = Submission("ann", owner="vision", private=True)


class TenantsConformance:
    """Inherited with a fixture ``store`` of an empty database."""

    def test_rows_of_others_private_jobs_are_not_there(self, store: SqlStore) -> None:
        hidden = store_schedule(store, problem(), 700, submission=PRIVATE).rpartition("-")[0]
        shown = store_schedule(store, problem(), 900).rpartition("-")[0]

        def rows(viewer: SqlStore, **options: object) -> list[int]:
            with viewer.reading() as session:
                counts = (
                    select(func.count()).select_from(row).execution_options(**options)
                    for row in (JobRow, TrialRow, JobEventRow, ScheduleRow, *ANNOTATIONS)
                )
                return [session.scalar(count) or 0 for count in counts]

        for job in (hidden, shown):
            annotate(store, job, comment="seen", add_tags=["seen"])
        everything = rows(store)
        assert everything == rows(store.seen_by("vision"))
        assert everything == rows(store.seen_by("bob"), **EVERYBODYS)
        assert rows(store.seen_by("bob")) == [1, 1, everything[2] // 2, 1, 1, 1]
        bob = store.seen_by("bob")
        assert [one.job.id for one in jobs_page(bob, JobFilters(), None, 9)] == [shown]
        for look in (bob.job, bob.trials, bob.pending, bob.space, bob.events):
            with pytest.raises(UserError, match="no job"):
                look(hidden)
        with pytest.raises(UserError, match="no job"), bob.transaction():
            bob.request(hidden, JobRequest.CANCEL)

    def test_a_private_best_and_a_shared_one_stand_side_by_side(self, store: SqlStore) -> None:
        def best(viewer: SqlStore) -> str | None:
            found = viewer.best(lookup_of(problem()))
            return None if found is None else found.public_id

        private = store_schedule(store, problem(), 700, submission=PRIVATE)
        assert (best(store), best(store.seen_by("vision"))) == (None, private)
        shared = store_schedule(store, problem(), 900)
        assert (best(store.seen_by("bob")), best(store.seen_by("vision"))) == (shared, private)
        faster = store_schedule(store, problem(), 500)
        assert best(store) == best(store.seen_by("vision")) == faster

    def test_uploads_of_one_name_are_told_apart_by_their_owners(self, store: SqlStore) -> None:
        kernels = {
            owner: pipelines.keep(store, owner.encode(), "blur", owner, {})[0].kernel
            for owner in ("ann", "bob")
        }
        assert {
            owner: pipelines.named(store, "pipeline:blur", Viewer(owner)).kernel
            for owner in kernels
        } == kernels
        with pytest.raises(UserError, match="unknown pipeline"):
            pipelines.named(store, "pipeline:\0", Viewer("ann"))
