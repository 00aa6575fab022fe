"""What tests of the job routes share: stand-ins for compilers, jobs with trials in them."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer
from tuner import codegen, measure
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, failed, ok, spec
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState, Submission, Trial


def use_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled: the fingerprint is that of stand-ins."""
    find_generator, find_measurer = codegen.find_generator, measure.find_measurer

    def generator(name: str) -> Any:
        return StandInGenerator if find_generator(name) else None

    def measurer(name: str) -> Any:
        return StandInMeasurer if find_measurer(name) else None

    monkeypatch.setattr("tuner.executor.executor.find_generator", generator)
    monkeypatch.setattr(measure, "find_measurer", measurer)


def made(store: SqlStore, user: str = "ann", **changes: Any) -> str:
    """A queued job."""
    return store.create_job(spec(**changes), SPACE, TOOLCHAIN, Submission(user)).id


def with_trials(store: SqlStore, *outcomes: Outcome, end: JobState | None = JobState.DONE) -> str:
    """A job with such trials, the n-th of 1000 - n cycles if it is ok."""
    job_id = made(store)
    token = store.claim(job_id)
    for number, outcome in enumerate(outcomes):
        commit(store, job_id, token, number, outcome)
    if end is not None:
        store.release(job_id, token, end)
    return job_id


def commit(store: SqlStore, job_id: str, token: int, number: int, outcome: Outcome) -> None:
    origin = {0: "default", 1: "textbook"}.get(number, "tpe")
    trial: Trial
    if outcome is Outcome.OK:
        compiled = artifact(number + 1)
        trial = ok(number, compiled, cycles=1000 - number, origin=origin)
        store.commit(job_id, token, finished=[trial], artifacts=[compiled], spent_s=number + 1.0)
    else:
        store.commit(job_id, token, finished=[failed(number, outcome)], spent_s=number + 1.0)


def items(client: TestClient, path: str, **query: Any) -> list[dict[str, Any]]:
    """All items of a list, page by page."""
    found, cursor = [], None
    while True:
        asked = {k: v for k, v in {**query, "cursor": cursor}.items() if v is not None}
        answer = client.get(path, params=asked)
        assert answer.status_code == 200, answer.text
        found += answer.json()["items"]
        cursor = answer.json()["next_cursor"]
        if cursor is None:
            return found
