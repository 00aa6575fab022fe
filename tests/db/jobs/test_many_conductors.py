"""Six conductors, each a process with a store of its own, take the jobs of one PostgreSQL."""

from __future__ import annotations

import multiprocessing
import multiprocessing.synchronize
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import pytest
from sqlalchemy import select

from db import open_store
from db.models import JobEventRow, JobRow
from db.sql_store import SqlStore
from tests.db.job_queue_conformance import give_token, just_ran, submitted
from tests.db.postgres_server import NEEDS_POSTGRES, databases
from tuner.conformance.patience import PATIENCE_S
from tuner.records.trial import JobState

pytestmark = [pytest.mark.slow, *NEEDS_POSTGRES]

CONDUCTORS = 6
JOBS = {"ann": 30, "bob": 8, "cyd": 5}
"""In the order in which they submit: all of Ann's come before the first of Bob's."""
TRIALS = 2


def conduct(url: str, all_here: multiprocessing.synchronize.Barrier) -> None:
    """Takes and ends jobs until none waits. Every trial is told to have taken ten seconds."""
    with closing(open_store(url)) as store:
        queue = store.queue()
        all_here.wait(PATIENCE_S)
        while True:
            job = queue.take_next()
            if job is None:
                if all(summary.job.state.ended for summary in store.summaries(limit=100)):
                    return
                time.sleep(0.01)
                continue
            for number in range(TRIALS):
                trial = replace(just_ran(number, 10.0), error=f"{job.id} {job.token}")
                store.commit(job.id, job.token, finished=[trial])
            store.release(job.id, job.token, JobState.DONE)


@pytest.fixture
def store() -> Iterator[SqlStore]:
    with databases() as new_database, closing(open_store(new_database())) as opened:
        yield opened


def test_no_job_is_run_twice_and_tenants_take_turns(store: SqlStore) -> None:
    user_of = {submitted(store, user): user for user, count in JOBS.items() for _ in range(count)}
    give_token(store, "cyd", running_jobs=1)
    url = store._engine.url.render_as_string(hide_password=False)
    spawned = multiprocessing.get_context("spawn")
    all_here = spawned.Barrier(CONDUCTORS)
    conductors = [spawned.Process(target=conduct, args=(url, all_here)) for _ in range(CONDUCTORS)]
    for one in conductors:
        one.start()
    for one in conductors:
        one.join(PATIENCE_S)
    assert [one.exitcode for one in conductors] == [0] * CONDUCTORS

    with store.reading() as session:
        tokens = {row.id: row.fencing_token for row in session.scalars(select(JobRow))}
        states = select(JobEventRow).where(JobEventRow.kind == "state").order_by(JobEventRow.at)
        told = [(row.job_id, row.data["state"]) for row in session.scalars(states)]
    assert tokens == dict.fromkeys(user_of, 1), "each job is claimed once"
    for job_id in user_of:
        assert [trial.number for trial in store.trials(job_id)] == list(range(TRIALS))

    claimed = [user_of[job_id] for job_id, state in told if state == "running"]
    assert Counter(claimed) == JOBS
    # Until they have had as much service, others go before Ann, save for what runs already.
    before_bobs_last = Counter(claimed[: len(claimed) - claimed[::-1].index("bob")])
    assert before_bobs_last["ann"] <= JOBS["bob"] + CONDUCTORS
    # A token that allows one job at once.
    cyds = [state for job_id, state in told if user_of[job_id] == "cyd" and state != "queued"]
    assert all(one != other for one, other in pairwise(cyds)), cyds
