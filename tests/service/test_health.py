"""Probes and figures of a service."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from service import health as readiness
from service.health import Readiness
from tests.service.stored import unfit_conductor
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, pending, spec
from tuner.errors import StoreError
from tuner.records.trial import JobRequest

KNOWN = {"Authorization": "Bearer of the gate that is open"}


def figures(client: TestClient) -> dict[str, float]:
    lines = client.get("/metrics").text.splitlines()
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    }


def break_database(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise StoreError("the database is locked", next_step="wait")

    monkeypatch.setattr(store, "reading", refuse)
    monkeypatch.setattr(store, "writing", refuse)


def test_it_is_ready_while_the_database_answers(
    app: FastAPI, client: TestClient, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.state.conductors_alive = lambda: 2
    assert client.get("/readyz", headers=KNOWN).json() == {
        "status": "ready",
        "database": store.place.name,
        "conductors": 2,
        "unfit": [],
    }
    unfit_conductor(store)
    [said] = client.get("/readyz", headers=KNOWN).json()["unfit"]
    assert said == "process 4711 on lab7: artifacts: not where the service has them"
    break_database(store, monkeypatch)
    monkeypatch.setattr(readiness, "BELIEVED_S", 0.0)
    app.state.readiness = Readiness(store)
    answer = client.get("/readyz", headers=KNOWN)
    assert answer.status_code == 503
    assert answer.json()["detail"] == "the database is locked"
    assert answer.headers["Retry-After"]
    assert client.get("/healthz").status_code == 200


def test_it_is_not_ready_while_artifacts_cannot_be_written_and_says_so(
    client: TestClient, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "FAILURE_BELIEVED_S", 0.0)
    store.files.storage.root.write_text("in the way")
    answer = client.get("/readyz", headers=KNOWN)
    assert answer.status_code == 503
    assert str(store.files.storage.root) in answer.json()["detail"]
    store.files.storage.root.unlink()
    assert client.get("/readyz").status_code == 200
    assert not store.files.storage.root.exists()


def test_it_is_not_ready_while_the_database_takes_no_write(
    client: TestClient, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "PATIENCE_S", 0.2)
    monkeypatch.setattr(readiness, "BELIEVED_S", 0.0)
    with store.writing():
        answer = client.get("/readyz", headers=KNOWN)
        assert answer.status_code == 503
        assert "has taken no write" in answer.json()["detail"]
        assert client.get("/healthz").status_code == 200


def test_metrics_count_jobs_and_trials_of_the_database(client: TestClient, store: SqlStore) -> None:
    running, waiting, paused = (store.create_job(spec(), SPACE, TOOLCHAIN) for _ in range(3))
    store.request(paused.id, JobRequest.PAUSE)
    token = store.claim(running.id)
    store.commit(running.id, token, started=[pending(0), pending(1)])
    store.commit(running.id, token, finished=[ok(0, artifact(0))], artifacts=[artifact(0)])
    found = figures(client)
    assert waiting.id != running.id
    assert found['hvxtune_jobs{state="running"}'] == 1
    assert found['hvxtune_jobs{state="queued"}'] == 1
    assert found['hvxtune_jobs{state="paused"}'] == 1
    assert found['hvxtune_jobs{state="failed"}'] == 0
    assert found['hvxtune_trials_total{outcome="ok"}'] == 1
    assert found['hvxtune_trials_total{outcome="timeout"}'] == 0
    assert found['hvxtune_devices{kind="embedded",state="ready"}'] == 1
    assert found["hvxtune_database_up"] == 1


def test_metrics_time_requests_by_the_template_of_their_route(
    app: FastAPI, client: TestClient
) -> None:
    pages = FastAPI()
    pages.get("/jobs/{job}")(lambda job: job)
    app.mount("/pages", pages)
    client.get("/pages/jobs/1")
    for path in ("/v1/kernels/gemm_u8", "/v1/kernels/add_u8", "/v1/kernels/none", "/nowhere"):
        client.get(path)
    client.request("BREW", "/v1/kernels")
    found = figures(client)

    def count(method: str, route: str, status: int) -> float:
        labels = f'method="{method}",route="{route}",status="{status}"'
        return found[f"hvxtune_request_seconds_count{{{labels}}}"]

    assert count("GET", "/v1/kernels/{name}", 200) == 2
    assert count("GET", "/v1/kernels/{name}", 404) == 1
    assert count("GET", "(none)", 404) == 1
    assert count("GET", "/pages/jobs/{job}", 200) == 1
    assert count("other", "/v1/kernels", 405) == 1


def test_metrics_are_given_while_the_database_is_away(
    client: TestClient, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_database(store, monkeypatch)
    found = figures(client)
    assert found["hvxtune_database_up"] == 0
    assert not any(name.startswith("hvxtune_jobs") for name in found)
