"""Nothing is changed without a row in the audit, and nothing is taken on beyond a quota."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from httpx import Response
from sqlalchemy import delete
from starlette.testclient import TestClient

from db.access import audit
from db.access.audit import newest_entries
from db.access.tokens import Token, add_token
from db.exchange import export_schedules
from db.models import ScheduleRow
from db.sql_store import SqlStore
from service.app import create_app
from service.auth import Quotas, Scope
from service.settings import Settings
from tests.service.gates import CallerGate
from tests.service.job_routes import made, use_stand_ins
from tests.service.stored import problem, store_schedule
from tests.tuner.packages.broken import good_package
from tuner.errors import StoreError
from tuner.packages.files import read_folder
from tuner.records.trial import JobState

BEST = "/v1/schedules/best"
SHAPE = {"m": 64, "n": 128, "k": 128}
JOB = {"kernel": "gemm_u8", "params": SHAPE, "budget": {"trials": 30}}


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_ins(monkeypatch)


def exported(store: SqlStore, tmp_path: Path) -> bytes:
    """A schedule as a file, without leaving it here."""
    store_schedule(store, problem(**SHAPE), 1000)
    export_schedules(store, tmp_path / "schedules.zip")
    return (tmp_path / "schedules.zip").read_bytes()


def submit(client: TestClient, store: SqlStore) -> Response:
    return client.post("/v1/jobs", json=JOB, headers={"Idempotency-Key": "once"})


def enqueue(client: TestClient, store: SqlStore) -> Response:
    return client.get(
        BEST, params={"kernel": "gemm_u8", "param": "m=8,n=8,k=8", "on_miss": "enqueue"}
    )


def cancel(client: TestClient, store: SqlStore) -> Response:
    return client.post(f"/v1/jobs/{store.jobs()[0].id}/cancel")


def make_token(client: TestClient, store: SqlStore) -> Response:
    return client.post("/v1/tokens", json={"name": "ci", "scopes": ["read"]})


def quarantine(client: TestClient, store: SqlStore) -> Response:
    [stored] = client.get("/v1/schedules").json()["items"]
    return client.post(f"/v1/schedules/{stored['id']}/quarantine", json={"reason": "odd"})


Change = Callable[[TestClient, SqlStore], Response]


@pytest.mark.parametrize("change", [submit, enqueue, cancel, make_token, quarantine])
def test_what_cannot_be_audited_does_not_happen(
    change: Change, client: TestClient, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_schedule(store, problem(**SHAPE), 1000)
    made(store)

    def state() -> list[object]:
        paths = ("/v1/jobs", "/v1/tokens", "/v1/schedules", "/v1/audit")
        return [client.get(path).json()["items"] for path in paths]

    before = state()
    with monkeypatch.context() as broken:
        broken.setattr(audit, "add_entry", _refuse)
        assert change(client, store).status_code == 503
    assert state() == before
    assert change(client, store).status_code < 300
    assert len(newest_entries(store, 10)) == 1


def _refuse(*arguments: object, **named: object) -> int:
    raise StoreError("the disk is full")


def test_an_import_that_cannot_be_audited_does_not_happen(
    client: TestClient, store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = exported(store, tmp_path)
    forget_schedules(store)
    with monkeypatch.context() as broken:
        broken.setattr(audit, "add_entry", _refuse)
        assert client.post("/v1/import", content=content).status_code == 503
    assert client.get("/v1/schedules").json()["items"] == []
    assert client.post("/v1/import", content=content).json()["stored"] == 1
    [entry] = newest_entries(store, 10)
    assert entry.action == "schedule.import"
    assert entry.detail == {
        "schedules": 1, "stored": 1, "kept": 0, "left_out": 0, "reasons": [],
        "bytes": len(content), "any_toolchain": False,
    }  # fmt: skip


def forget_schedules(store: SqlStore) -> None:
    with store.writing() as session:
        session.execute(delete(ScheduleRow))


@pytest.fixture
def limited(store: SqlStore) -> Callable[..., TestClient]:
    """``limited(trials_per_day=100)`` talks to a service as a person with these quotas."""

    def client_of(**quotas: int) -> TestClient:
        gate = CallerGate("ann", *Scope, quotas=Quotas(**quotas))
        return TestClient(create_app(store, gate, Settings()), raise_server_exceptions=False)

    return client_of


def test_requests_at_the_same_time_do_not_exceed_a_quota(
    limited: Callable[..., TestClient], store: SqlStore
) -> None:
    client = limited(trials_per_day=100)
    ready = threading.Barrier(8)
    statuses: list[int] = []

    def send() -> None:
        ready.wait()
        statuses.append(client.post("/v1/jobs", json=JOB).status_code)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201] * 3 + [429] * 5
    assert len(store.jobs()) == len(newest_entries(store, 10)) == 3


def test_what_a_miss_enqueues_counts_and_is_audited(
    limited: Callable[..., TestClient], store: SqlStore
) -> None:
    asked = partial(dict, kernel="gemm_u8", on_miss="enqueue")
    client = limited(trials_per_day=150)  # a job of a miss has 100
    assert client.get(BEST, params=asked(param="m=8,n=8,k=8")).status_code == 202
    refused = client.get(BEST, params=asked(param="m=9,n=8,k=8"))
    assert refused.status_code == 429
    assert refused.json()["quota"] == "trials_per_day"
    [entry] = newest_entries(store, 10)
    [job] = store.jobs()
    assert (entry.action, entry.subject) == ("job.submit", job.id)
    assert entry.detail == {"jobs": [job.id], "kernel": "gemm_u8", "on_miss": "enqueue"}


def test_so_does_what_a_batch_enqueues(limited: Callable[..., TestClient], store: SqlStore) -> None:
    workloads = [{"kernel": "gemm_u8", "params": {**SHAPE, "m": m}} for m in (1, 2, 3)]
    body = {"workloads": workloads, "on_miss": "enqueue"}
    items = limited(trials_per_day=250).post(f"{BEST}:batch", json=body).json()["items"]
    assert [item["status"] for item in items] == [202, 202, 429]
    assert [job.state for job in store.jobs()] == [JobState.QUEUED] * 2
    subjects = {entry.subject for entry in newest_entries(store, 10)}
    assert subjects == {job.id for job in store.jobs()}


def test_packages_count_as_uploads(
    limited: Callable[..., TestClient], store: SqlStore, tmp_path: Path
) -> None:
    content = read_folder(good_package(tmp_path / "smear")).data
    client = limited(upload_bytes_per_day=len(content) * 3 // 2)
    add_token(store, Token("id-ann", "ann", "0" * 64, []))
    assert client.post("/v1/packages", content=content).status_code == 201
    refused = client.post("/v1/packages", content=content)
    assert (refused.status_code, refused.json()["quota"]) == (429, "upload_bytes_per_day")


def test_imports_count_as_uploads(
    limited: Callable[..., TestClient], store: SqlStore, tmp_path: Path
) -> None:
    content = exported(store, tmp_path)
    client = limited(upload_bytes_per_day=len(content) * 3 // 2)
    add_token(store, Token("id-ann", "ann", "0" * 64, []))
    assert client.post("/v1/import", content=content).status_code == 200
    refused = client.post("/v1/import", content=content)
    assert refused.status_code == 429
    assert refused.json()["quota"] == "upload_bytes_per_day"
    assert client.post("/v1/import", content=b"x" * 2 * len(content)).status_code == 422
