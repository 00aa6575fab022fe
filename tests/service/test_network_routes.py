"""Networks and sets over REST: one row of the list, the table by layer, cancel and resume."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import event
from starlette.testclient import TestClient

from db.access.audit import newest_entries
from db.sql_store import SqlStore
from service.app import create_app
from service.auth import Scope
from service.settings import Settings
from tests.service.cli.test_batches import stored
from tests.service.gates import CallerGate
from tests.service.job_routes import items, made, use_stand_ins
from tuner.conformance.stores import NETWORK, new_job
from tuner.records.trial import JobState


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [one.get("job") or one["batch"] for one in found]


def test_a_grouped_list_has_a_set_as_one_item(client: TestClient, store: SqlStore) -> None:
    early = made(store)
    batch = stored(store)
    late = made(store)
    assert ids(items(client, "/v1/jobs", grouped="true", limit=1)) == [late, batch.id, early]
    assert len(items(client, "/v1/jobs")) == 4
    (row,) = items(client, "/v1/jobs", grouped="true", state="done")
    assert (row["batch"], row["kind"], row["state"]) == (batch.id, "set", "done")
    assert (row["finished"], row["ok"], row["jobs_by_state"]) == (4, 4, {"done": 2})
    assert row["total"]["best_cycles"] == 2 * 800 + 300
    members = {member.job for member in batch.members}
    assert set(ids(items(client, "/v1/jobs", batch=batch.id))) == members


def test_a_network_is_shown_layer_by_layer(client: TestClient, store: SqlStore) -> None:
    batch = stored(store, kind="network")
    shown = client.get(f"/v1/networks/{batch.id}").json()
    assert [layer["name"] for layer in shown["layers"]] == ["a", "d"]
    assert [layer["on_host"] for layer in shown["layers"]] == [False, True]
    assert shown["layers"][0]["speedup"] == 2.5
    (job,) = shown["jobs"]
    assert (job["job"], job["layers"]) == (batch.members[0].job, ["a"])
    for given in (batch.id[:9], "net"):
        assert client.get(f"/v1/networks/{given}").json() == shown


def test_the_number_of_queries_does_not_grow_with_the_list(
    client: TestClient, store: SqlStore
) -> None:
    counted: list[str] = []
    event.listen(store._engine, "before_cursor_execute", lambda *a: counted.append(a[2]))

    def queries() -> int:
        counted.clear()
        assert client.get("/v1/jobs?grouped=true").status_code == 200
        return len(counted)

    stored(store)
    few = queries()
    for _ in range(3):
        stored(store)
    assert queries() == few


def test_cancel_and_resume_are_of_all_jobs(client: TestClient, store: SqlStore) -> None:
    batch = stored(store, tuned=((2000, 800),))
    waits = batch.members[1].job
    path = f"/v1/networks/{batch.id}"
    for action, state in (("pause", "paused"), ("resume", "queued"), ("cancel", "done")):
        answer = client.post(f"{path}/{action}")
        assert (answer.status_code, answer.json()["state"]) == (200, state), action
        assert client.post(f"{path}/{action}").status_code == 200
        assert newest_entries(store, limit=1)[0].action == f"network.{action}"
        assert newest_entries(store, limit=1)[0].subject == batch.id
    assert store.job(waits).state is JobState.CANCELLED
    refused = client.post(f"{path}/resume")
    assert refused.status_code == 409
    assert "can no longer resume" in refused.json()["detail"]


def test_a_set_that_a_command_runs_can_only_be_cancelled(
    client: TestClient, store: SqlStore
) -> None:
    batch = store.create_batch(NETWORK, [new_job("a")])
    for action in ("pause", "resume"):
        refused = client.post(f"/v1/networks/{batch.id}/{action}")
        assert refused.status_code == 409
        assert "hvxtune resume" in refused.json()["next_step"]
    assert client.post(f"/v1/networks/{batch.id}/cancel").json()["state"] == "cancelled"


def test_others_need_the_scope_operate(store: SqlStore) -> None:
    batch = stored(store, user="ann", tuned=())

    def asked(*scopes: Scope) -> int:
        app: FastAPI = create_app(store, CallerGate("bob", *scopes), Settings())
        return TestClient(app).post(f"/v1/networks/{batch.id}/cancel").status_code

    assert asked(Scope.READ, Scope.SUBMIT) == 403
    assert store.job(batch.members[0].job).state is JobState.QUEUED
    assert asked(Scope.READ, Scope.OPERATE) == 200


@pytest.mark.parametrize("path", ["zzz", "zzz/cancel", "%00", "JOB", "JOB/resume"])
def test_what_is_no_network_is_not_found(client: TestClient, store: SqlStore, path: str) -> None:
    path = path.replace("JOB", made(store))
    ask = client.post if "/" in path else client.get
    answer = ask(f"/v1/networks/{path}")
    assert answer.status_code == 404
    assert answer.json()["next_step"] == "`GET /v1/jobs?grouped=true` lists them"


def test_a_set_is_submitted_with_its_name_and_layers(
    client: TestClient, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_stand_ins(monkeypatch)
    workloads = [
        {"kernel": "scale_u8", "layers": ["first", "third"]},
        {"kernel": "scale_u8", "params": {"n": 1024}},
    ]
    answer = client.post("/v1/jobs", json={"workloads": workloads, "name": "tiny"})
    batch = store.batch(answer.json()["batch"])
    assert answer.headers["Location"] == f"/v1/networks/{batch.id}"
    assert [member.layers for member in batch.members] == [
        ("first", "third"),
        ("scale_u8 h=4 n=1024",),
    ]
    assert (batch.name, batch.submission.user) == ("tiny", "test")
    refused = client.post("/v1/jobs", json={"kernel": "scale_u8", "name": "tiny"})
    assert refused.status_code == 422
    assert "a name belongs to workloads" in refused.text
