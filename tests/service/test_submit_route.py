"""POST /v1/jobs: checked as a whole, stored as a whole, once per key."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from service.app import create_app
from service.auth import Quotas, Scope
from service.settings import Settings
from tests.service.gates import CallerGate
from tests.service.job_routes import use_stand_ins


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_ins(monkeypatch)


BODY = {"kernel": "scale_u8", "params": {"n": 1024}, "budget": {"trials": 7}, "priority": 3}


def test_a_job_is_queued_for_the_caller_with_defaults(client: TestClient, store: SqlStore) -> None:
    answer = client.post("/v1/jobs", json={"kernel": "scale_u8"})
    assert answer.status_code == 201
    assert answer.json()["batch"] is None
    (job,) = answer.json()["jobs"]
    assert answer.headers["Location"] == f"/v1/jobs/{job['job']}"
    assert job["state"] == "queued"
    assert job["user"] == "test"
    assert job["params"] == {"h": 4, "n": 512}
    assert job["budget"] == {"trials": 100, "seconds": None, "patience": None, "until_gain": None}
    assert store.job(job["job"]).submission.user == "test"


def test_what_is_asked_for_is_stored(client: TestClient, store: SqlStore) -> None:
    more = {"contract": "host", "cache": "cold", "sampler": "random", "seed": 9, "workers": 3}
    (job,) = client.post("/v1/jobs", json={**BODY, **more}).json()["jobs"]
    stored = store.job(job["job"])
    assert stored.submission.priority == 3
    assert stored.spec.problem.workload.params["n"] == 1024
    assert (stored.spec.budget.trials, stored.spec.seed, stored.spec.workers) == (7, 9, 3)
    assert (stored.spec.sampler, stored.spec.cache) == ("random", "cold")


def test_workers_left_out_are_those_of_the_service(store: SqlStore) -> None:
    app = create_app(store, CallerGate("ann", Scope.SUBMIT), Settings(workers=5))
    (job,) = TestClient(app).post("/v1/jobs", json=BODY).json()["jobs"]
    assert job["workers"] == 5


def test_one_bad_workload_makes_no_job_and_is_named(client: TestClient, store: SqlStore) -> None:
    workloads = [{"kernel": "scale_u8"}, {"kernel": "scale_u9"}]
    answer = client.post("/v1/jobs", json={"workloads": workloads})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("workloads.1: unknown kernel 'scale_u9'")
    assert "scale_u8" in answer.json()["accepted"] + answer.json()["next_step"]
    assert store.jobs() == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"kernel": "nope"}, "nope"),
        ({"params": {"zz": 1}}, "zz"),
        ({"sampler": "tpee"}, "tpee"),
        ({"budget": {"trials": 0}}, "budget.trials"),
        ({"budget": {"seconds": 1e300}}, "budget.seconds"),
        ({"prority": 1}, "prority"),
        ({"workloads": [{"kernel": "scale_u8"}]}, "workloads"),
        ({"kernel": None}, "kernel"),
        ({"params": {"n": True}}, "params"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_work_is_refused_by_name(
    client: TestClient, store: SqlStore, change: Any, named: str
) -> None:
    answer = client.post("/v1/jobs", json={**BODY, **change})
    assert answer.status_code == 422, answer.text
    assert named in answer.json()["detail"]


def test_a_retry_with_its_key_makes_no_second_job(client: TestClient, store: SqlStore) -> None:
    first, again = (
        client.post("/v1/jobs", json=BODY, headers={"Idempotency-Key": "k1"}) for _ in range(2)
    )
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"]
    assert len(store.jobs()) == 1
    client.post("/v1/jobs", json=BODY, headers={"Idempotency-Key": "k2"})
    assert len(store.jobs()) == 2


def test_a_key_with_another_body_is_refused(client: TestClient, store: SqlStore) -> None:
    headers = {"Idempotency-Key": "k1"}
    client.post("/v1/jobs", json=BODY, headers=headers)
    answer = client.post("/v1/jobs", json={**BODY, "seed": 1}, headers=headers)
    assert answer.status_code == 409
    assert "k1" in answer.json()["detail"]
    assert len(store.jobs()) == 1


def test_a_refused_request_does_not_use_its_key_up(client: TestClient, store: SqlStore) -> None:
    headers = {"Idempotency-Key": "k1"}
    assert client.post("/v1/jobs", json={"kernel": "nope"}, headers=headers).status_code == 422
    assert client.post("/v1/jobs", json=BODY, headers=headers).status_code == 201


def test_keys_belong_to_a_token(store: SqlStore) -> None:
    for name in ("ann", "bob"):
        app = create_app(store, CallerGate(name, Scope.SUBMIT), Settings())
        answer = TestClient(app).post("/v1/jobs", json=BODY, headers={"Idempotency-Key": "k"})
        assert answer.json()["jobs"][0]["user"] == name
    assert len(store.jobs()) == 2


def test_a_bad_key_is_refused(client: TestClient) -> None:
    for key in ("", "k" * 201, "two words"):
        answer = client.post("/v1/jobs", json=BODY, headers={"Idempotency-Key": key})
        assert answer.status_code == 422


def test_of_retries_at_once_one_makes_the_job(app: FastAPI, store: SqlStore) -> None:
    start = threading.Barrier(6)
    answers: list[Any] = []

    def post() -> None:
        start.wait()
        headers = {"Idempotency-Key": "k"}
        answers.append(TestClient(app).post("/v1/jobs", json=BODY, headers=headers))

    threads = [threading.Thread(target=post) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["jobs"][0]["job"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" in answer.headers for answer in answers) == 5
    assert len(store.jobs()) == 1


def test_the_daily_quota_of_trials_counts_all_workloads_but_no_retry(store: SqlStore) -> None:
    gate = CallerGate("ann", Scope.SUBMIT, quotas=Quotas(trials_per_day=20))
    client = TestClient(create_app(store, gate, Settings()))
    two = {"workloads": [{"kernel": "scale_u8"}] * 2, "budget": {"trials": 16}}
    headers = {"Idempotency-Key": "k"}
    assert client.post("/v1/jobs", json=two, headers=headers).status_code == 201
    assert client.post("/v1/jobs", json=two).status_code == 429
    assert client.post("/v1/jobs", json=two, headers=headers).status_code == 201
    assert len(store.jobs()) == 2
