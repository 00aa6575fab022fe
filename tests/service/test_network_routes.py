"""Networks and sets over REST: one row of the list, the table by layer, cancel and resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Response
from sqlalchemy import event
from starlette.testclient import TestClient

from db.access.audit import newest_entries
from db.exchange import opened
from db.schedules import queries
from db.sql_store import SqlStore
from service.app import create_app
from service.auth import Scope
from service.settings import Settings
from tests.service.cli.test_batches import stored
from tests.service.gates import CallerGate
from tests.service.job_routes import items, made
from tests.service.stored import problem, store_schedule
from tuner.conformance.stores import NETWORK, new_job
from tuner.keeping.best import lookup_of
from tuner.records.batch import BatchPlan, NetworkLayer, NewJob
from tuner.records.trial import JobState, Submission


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

    def asked() -> int:
        counted.clear()
        assert client.get("/v1/jobs?grouped=true").status_code == 200
        return len(counted)

    stored(store)
    few = asked()
    for _ in range(3):
        stored(store)
    assert asked() == few


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
        assert "hvxtune job resume" in refused.json()["next_step"]
    assert client.post(f"/v1/networks/{batch.id}/cancel").json()["state"] == "cancelled"


@pytest.mark.parametrize(
    "path", ["zzz", "zzz/cancel", "%00", "JOB", "JOB/resume", "zzz/bundle", "JOB/bundle"]
)
def test_what_is_no_network_is_not_found(client: TestClient, store: SqlStore, path: str) -> None:
    path = path.replace("JOB", made(store))
    ask = client.get if path.endswith("/bundle") or "/" not in path else client.post
    answer = ask(f"/v1/networks/{path}")
    assert answer.status_code == 404
    assert answer.json()["next_step"] == "`GET /v1/jobs?grouped=true` lists them"


def network_of(store: SqlStore, *schedules: str) -> str:
    """A network whose jobs are those that found these schedules once more; its id."""
    made = [store.job(schedule.rpartition("-")[0]) for schedule in schedules]
    layers = tuple(NetworkLayer(job.id, "conv", "0" * 64, "gemm_u8") for job in made)
    plan = BatchPlan(name="net", kind="network", layers=layers)
    jobs = [
        NewJob(job.spec, store.space(job.id), job.toolchain, (job.id,), Submission("bob"))
        for job in made
    ]
    return store.create_batch(plan, jobs).id


def opened_answer(answer: Response, folder: Path) -> list[str]:
    """The ids of the schedules in the file."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/octet-stream"
    file = folder / "net.zip"
    file.write_bytes(answer.content)
    with opened(file) as inside:
        return sorted(one.row.public_id for one in queries.page(inside))


def test_a_bundle_holds_the_best_of_each_workload_and_nothing_else(
    client: TestClient, store: SqlStore, tmp_path: Path
) -> None:
    wide, narrow = problem(m=64, n=256, k=128), problem(m=64, n=128, k=128)
    slow, other = store_schedule(store, wide, 900), store_schedule(store, narrow, 400)
    fast = store_schedule(store, problem(m=64, n=256, k=128, contract="host"), 800)
    store_schedule(store, problem(m=64, n=384, k=128), 100)
    store_schedule(store, wide, 10, cache="cold")
    network = network_of(store, slow, other, slow)
    answer = client.get(f"/v1/networks/{network}/bundle")
    assert 'filename="net.zip"' in answer.headers["Content-Disposition"]
    assert opened_answer(answer, tmp_path) == sorted([fast, other])
    assert client.get("/v1/networks/net/bundle").content == answer.content
    with opened(tmp_path / "net.zip") as inside:
        best = inside.best(lookup_of(wide))
        assert best is not None
        assert best.public_id == fast
        assert inside.artifact(best.artifact_digest) == store.artifact(best.artifact_digest)


def test_a_network_with_a_workload_without_a_schedule_has_no_bundle(
    client: TestClient, store: SqlStore
) -> None:
    batch = stored(store)  # its trials are none of a schedule's
    answer = client.get(f"/v1/networks/{batch.id}/bundle")
    assert answer.status_code == 409
    assert "no schedule is stored for 1 of 1 workloads" in answer.json()["detail"]
    assert f"/v1/networks/{batch.id}" in answer.json()["next_step"]


def test_a_bundle_has_what_is_shared_and_ones_own(store: SqlStore, tmp_path: Path) -> None:
    of = problem(m=64, n=256, k=128)
    private = store_schedule(store, of, 500, submission=Submission("ann", private=True))
    network = network_of(store, private)

    def asked(user: str, *scopes: Scope) -> Response:
        app: FastAPI = create_app(store, CallerGate(user, *scopes), Settings())
        return TestClient(app).get(f"/v1/networks/{network}/bundle")

    assert asked("ann", Scope.SUBMIT).status_code == 403
    assert opened_answer(asked("ann", Scope.READ), tmp_path) == [private]
    for other in (asked("bob", Scope.READ), asked("root", Scope.ADMIN)):
        assert other.status_code == 409
        assert private not in other.text
    shared = store_schedule(store, of, 700)
    assert opened_answer(asked("bob", Scope.READ), tmp_path) == [shared]
