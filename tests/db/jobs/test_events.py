"""Events tell all that happened to a job, in order, without gaps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from db import open_store
from db.sql_store import SqlStore
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, failed, ok, pending, spec
from tuner.errors import InternalError, UserError
from tuner.records.outcome import Outcome
from tuner.records.trial import JobRequest, JobState, Promotion, RemainingGain

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def store() -> Iterator[SqlStore]:
    with open_store() as opened:
        yield opened


def told(store: SqlStore, job_id: str, after: int = 0) -> list[object]:
    return [
        event.data["number"] if event.kind == "trial" else event.data["state"]
        for event in store.events(job_id, after)
    ]


def test_states_and_trials_are_told_in_the_order_of_commits(store: SqlStore) -> None:
    job_id = store.create_job(spec(), SPACE, TOOLCHAIN).id
    token = store.claim(job_id)
    store.commit(job_id, token, started=[pending(0), pending(1), pending(2)])
    store.commit(job_id, token, finished=[failed(2), failed(0)])
    store.commit(job_id, token, finished=[failed(1)])
    store.release(job_id, token, JobState.FAILED, "no valid trial")
    assert told(store, job_id) == ["queued", "running", 2, 0, 1, "failed"]
    events = store.events(job_id)
    assert [event.sequence for event in events] == [1, 2, 3, 4, 5, 6]
    assert events[-1].data["note"] == "no valid trial"
    assert told(store, job_id, after=4) == [1, "failed"]
    assert len(store.events(job_id, limit=2)) == 2


def test_promotions_are_told_when_they_come_back_and_estimates_when_they_change(
    store: SqlStore,
) -> None:
    job_id = store.create_job(spec(promote_to="phone", promote=2), SPACE, TOOLCHAIN).id
    token = store.claim(job_id)
    made = artifact(1)
    store.commit(job_id, token, finished=[ok(1, made)], artifacts=[made])
    store.commit(job_id, token, promotions=[Promotion(1, TOOLCHAIN)])
    hangs = Promotion(1, TOOLCHAIN, Outcome.TIMEOUT, error="it hangs", finished_at=1.0)
    store.commit(job_id, token, promotions=[hangs], remaining=RemainingGain(0.25, 0.5))
    assert [(event.kind, event.data) for event in store.events(job_id, after=3)] == [
        ("promotion", {"trial": 1, "outcome": "timeout", "cycles": None}),
        ("estimate", {"expected": 0.25, "bound": 0.5}),
    ]


def test_a_refused_commit_tells_nothing(store: SqlStore) -> None:
    job_id = store.create_job(spec(), SPACE, TOOLCHAIN).id
    token = store.claim(job_id)
    store.commit(job_id, token, finished=[failed(0)])
    with pytest.raises(InternalError):
        store.commit(job_id, token, finished=[failed(1), failed(0)])
    assert told(store, job_id) == ["queued", "running", 0]


def test_requests_are_told_once(store: SqlStore) -> None:
    job_id = store.create_job(spec(), SPACE, TOOLCHAIN).id
    for request in (JobRequest.PAUSE, JobRequest.PAUSE, JobRequest.RESUME, JobRequest.CANCEL):
        store.request(job_id, request)
    assert told(store, job_id) == ["queued", "queued", "queued", "cancelled"]
    assert [event.data["paused"] for event in store.events(job_id)] == [False, True, False, False]


def test_an_unknown_job_is_refused(store: SqlStore) -> None:
    with pytest.raises(UserError, match="no job"):
        store.events("zzz")
