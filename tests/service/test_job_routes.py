"""Listing, showing and steering jobs."""

from __future__ import annotations

import time
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from db.access.audit import newest_entries
from db.sql_store import SqlStore
from service.app import create_app
from service.auth import Scope
from service.settings import Settings
from tests.service.gates import CallerGate
from tests.service.job_routes import items, made, with_trials
from tests.service.stored import unfit_conductor
from tuner.conformance.records import problem
from tuner.problem.contract import Contract
from tuner.records.outcome import Outcome

OK, BAD = Outcome.OK, Outcome.COMPILE_ERROR


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [job["job"] for job in found]


def test_pages_are_stable_while_jobs_arrive(client: TestClient, store: SqlStore) -> None:
    before = [made(store) for _ in range(7)]
    first = client.get("/v1/jobs", params={"limit": 3}).json()
    made(store)
    second = client.get("/v1/jobs", params={"limit": 3, "cursor": first["next_cursor"]}).json()
    third = client.get("/v1/jobs", params={"limit": 3, "cursor": second["next_cursor"]}).json()
    assert ids(first["items"] + second["items"] + third["items"]) == before[::-1]
    assert third["next_cursor"] is None


def test_filters_choose(client: TestClient, store: SqlStore) -> None:
    plain = made(store, "ann")
    other = made(store, "bob", problem=problem(contract=Contract.HOST))
    left = made(store, "ann")
    store.claim(left)
    ended = with_trials(store, OK)
    expected: dict[str, tuple[Any, set[str]]] = {
        "user": ("bob", {other}),
        "contract": ("host", {other}),
        "state": ("done", {ended}),
        "kernel": ("gemm_u8", {plain, other, left, ended}),
        "target": ("hexagon-v68-sm8350", {plain, other, left, ended}),
        "batch": ("none", set()),
        "interrupted": ("false", {plain, other, left, ended}),
    }
    for name, (value, found) in expected.items():
        assert set(ids(items(client, "/v1/jobs", **{name: value}, limit=1))) == found, name
    assert ids(items(client, "/v1/jobs", user="ann", state="queued")) == [plain]


def test_interrupted_jobs_are_found(client: TestClient, store: SqlStore) -> None:
    waiting = made(store)
    left = made(store)
    store.claim(left)
    store.close()  # gives up the claim, as a process does that ends
    assert ids(items(client, "/v1/jobs", interrupted="true")) == [left]
    assert ids(items(client, "/v1/jobs", interrupted="false")) == [waiting]
    assert client.get(f"/v1/jobs/{left}").json()["interrupted"] is True


def test_a_job_is_shown_with_its_standing(client: TestClient, store: SqlStore) -> None:
    job_id = with_trials(store, OK, OK, BAD, OK)
    job = client.get(f"/v1/jobs/{job_id}").json()
    assert job["outcomes"] == {"ok": 3, "compile_error": 1}
    assert (job["finished"], job["pending"]) == (4, 0)
    assert (job["default_cycles"], job["textbook_cycles"], job["best_cycles"]) == (1000, 999, 997)
    assert (job["default"]["trial"], job["textbook"]["trial"], job["best"]["trial"]) == (0, 1, 3)
    assert job["share_of_roofline"] == round(job["roofline"]["cycles"] / 997, 4)
    assert job["distance"]["times"] == round(997 / job["roofline"]["cycles"], 3)
    assert job["rate_trials_per_s"] == 1.0
    assert job["eta_s"] is None
    assert job["toolchain"]["llvm"] == "20.1"
    assert client.get(f"/v1/jobs/{job_id[:8]}").json() == job


def test_an_unknown_job_is_404(client: TestClient, store: SqlStore) -> None:
    known = made(store)
    for path in ("", "/trials", "/events"):
        for job in ("zzzz", "a%00b", "%F0%9F%A6%91", "a%25b"):
            answer = client.get(f"/v1/jobs/{job}{path}")
            assert answer.status_code == 404
            assert known in answer.json()["accepted"]


def test_a_bad_cursor_is_refused(client: TestClient, store: SqlStore) -> None:
    job_id = made(store)
    for path in ("/v1/jobs", f"/v1/jobs/{job_id}/trials", "/v1/schedules"):
        for cursor in ("x", "bnVsbA", "W10", "WzEsMl0", "€"):
            answer = client.get(path, params={"cursor": cursor})
            assert answer.status_code == 422
            assert "cursor" in answer.json()["detail"]


def test_a_job_is_paused_resumed_and_cancelled(client: TestClient, store: SqlStore) -> None:
    job_id = made(store, "test")
    assert client.post(f"/v1/jobs/{job_id}/pause").json()["paused"] is True
    assert client.post(f"/v1/jobs/{job_id}/resume").json()["paused"] is False
    for _ in range(2):
        assert client.post(f"/v1/jobs/{job_id}/cancel").json()["state"] == "cancelled"
    for action in ("pause", "resume"):
        answer = client.post(f"/v1/jobs/{job_id}/{action}")
        assert answer.status_code == 409
        assert "cancelled" in answer.json()["detail"]
    assert client.post("/v1/jobs/zzzz/cancel").status_code == 404


def test_others_jobs_need_the_scope_operate(store: SqlStore) -> None:
    def asks(name: str, *scopes: Scope) -> int:
        app: FastAPI = create_app(store, CallerGate(name, *scopes), Settings())
        return TestClient(app).post(f"/v1/jobs/{job_id}/pause").status_code

    job_id = made(store, "ann")
    assert asks("bob", Scope.SUBMIT) == 403
    assert not store.job(job_id).paused
    assert asks("ann", Scope.SUBMIT) == 200
    assert asks("bob", Scope.OPERATE) == 200
    assert asks("bob", Scope.ADMIN) == 200
    job_id = made(store, "")
    assert asks("", Scope.READ) == 403


def test_processes_with_a_job_are_listed(client: TestClient, store: SqlStore) -> None:
    import os

    assert client.get("/v1/conductors").json() == {"items": []}
    held = {made(store) for _ in range(2)}
    for job_id in held:
        store.claim(job_id)
    (found,) = client.get("/v1/conductors").json()["items"]
    assert found["pid"] == os.getpid()
    assert set(found["jobs"]) == held
    assert found["started_at"] < time.time()
    assert "/" not in found["host"]


def test_conductors_are_listed_with_what_keeps_them_from_jobs(
    client: TestClient, store: SqlStore
) -> None:
    unfit_conductor(store)
    (found,) = client.get("/v1/conductors").json()["items"]
    assert (found["host"], found["pid"], found["jobs"], found["fit"]) == ("lab7", 4711, [], False)
    assert found["lacks"] == [{"part": "artifacts", "reason": "not where the service has them"}]
    assert found["without"] == [{"part": "hexagon-sim", "reason": "no SDK"}]
    assert (found["measurers"], found["artifacts"]) == (["qemu"], "folder:/its/own")
    assert (found["executor"], found["workers"][0]["name"]) == ("dask://lab7:8786", "lab8-4712")


def test_a_waiting_job_tells_why(client: TestClient, store: SqlStore) -> None:
    job_id = made(store)
    assert "no conductor runs" in client.get(f"/v1/jobs/{job_id}").json()["waits"]
    unfit_conductor(store)
    (listed,) = client.get("/v1/jobs").json()["items"]
    assert listed["waits"].startswith("no conductor is fit: process 4711 on lab7: artifacts: ")
    store.claim(job_id)
    assert client.get(f"/v1/jobs/{job_id}").json()["waits"] == ""


def as_person(store: SqlStore, name: str, *scopes: Scope) -> TestClient:
    return TestClient(create_app(store, CallerGate(name, *scopes), Settings()))


def test_comment_and_tags_are_changed_by_the_owner(store: SqlStore) -> None:
    job = made(store, "ann")
    ann = as_person(store, "ann", Scope.READ, Scope.SUBMIT)
    place = f"/v1/jobs/{job}"
    first = ann.patch(place, json={"comment": "so far", "add_tags": ["v2", "camera"]}).json()
    assert (first["comment"], first["tags"]) == ("so far", ["camera", "v2"])
    second = ann.patch(place, json={"add_tags": ["v3"], "remove_tags": ["v2"]}).json()
    assert (second["comment"], second["tags"]) == ("so far", ["camera", "v3"])
    assert ann.get(place).json()["tags"] == ["camera", "v3"]
    [entry, _] = newest_entries(store, 9)
    assert (entry.action, entry.subject) == ("job.annotate", job)
    assert entry.detail == {"comment": False, "add": ["v3"], "remove": ["v2"]}
    for wrong in ({"add_tags": ["No"]}, {"comment": "x" * 2001}, {"tags": []}, {"add_tags": "a"}):
        assert ann.patch(place, json=wrong).status_code == 422, wrong
    many = ann.patch(place, json={"add_tags": [f"t{n}" for n in range(9)]})
    assert (many.status_code, many.json()["accepted"]) == (422, "at most 10")
    bob = as_person(store, "bob", Scope.READ, Scope.SUBMIT)
    assert bob.patch(place, json={"comment": "mine"}).status_code == 403
    operator = as_person(store, "olga", Scope.READ, Scope.OPERATE)
    assert operator.patch(place, json={"comment": ""}).json()["comment"] == ""
    assert ids(items(ann, "/v1/jobs", tag="v3")) == [job]
    assert ids(items(ann, "/v1/jobs", tag="v2")) == []
