"""Networks tuned at a service from shapes alone, and their plans."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from db.access.audit import newest_entries
from db.sql_store import SqlStore
from service.app import create_app
from service.auth import Quotas, Scope
from service.settings import Settings
from tests.service.cli.test_batches import stored
from tests.service.gates import CallerGate
from tests.service.job_routes import use_stand_ins
from tests.tuner.jobs.test_network_plans import PLAN
from tuner.kernels.blocked import BlockedExpandedConv
from tuner.records.trial import JobState

pytestmark = pytest.mark.sqlite

GEMM = {"kernel": "gemm_u8", "params": {"m": 64, "n": 64, "k": 32}}
LAYERS: list[dict[str, Any]] = [
    {"name": "a", "operator": "conv", **GEMM, "macs": 30, "steps_apart": 1, "output_bytes": 64},
    {"name": "b", "operator": "Erf", "on_host": True, "note": "no integer form", "reads": [0]},
    {"name": "c", "operator": "matmul", **GEMM, "macs": 60, "calls": 2, "reads": [0, 1]},
    {"name": "d", "operator": "add", "kernel": "add_u8", "macs": 10, "reads": [2, 0]},
]
BODY: dict[str, Any] = {"name": "net", "layers": LAYERS, "budget": {"trials": 7}, "priority": 3}


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_ins(monkeypatch)


def test_a_network_becomes_a_job_for_each_workload(client: TestClient, store: SqlStore) -> None:
    answer = client.post("/v1/networks", json=BODY)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert [job["kernel"] for job in made["jobs"]] == ["gemm_u8", "add_u8"]
    assert [job["budget"]["trials"] for job in made["jobs"]] == [4, 3], "seven in all"
    assert {job["priority"] for job in made["jobs"]} == {3}
    assert answer.headers["Location"] == f"/v1/networks/{made['batch']}"
    assert newest_entries(store, limit=1)[0].subject == made["batch"]
    shown = client.get(answer.headers["Location"]).json()
    assert (shown["kind"], shown["name"], shown["state"]) == ("network", "net", "queued")
    first, second = shown["jobs"]
    assert (first["layers"], first["occurrences"]) == (["a", "c", "c, call 2"], 3)
    assert second["layers"] == ["d"]
    a, b, c, d = shown["layers"]
    assert [layer["job"] for layer in (a, b, c, d)] == [
        first["job"], None, first["job"], second["job"]
    ]  # fmt: skip
    assert [layer["reads"] for layer in (a, b, c, d)] == [[], [0], [0, 1], [0, 2]]
    assert (c["calls"], c["share_of_macs"], a["output_bytes"]) == (2, 0.6, 64)
    assert (a["steps_apart"], b["on_host"], b["note"]) == (1, True, "no integer form")


def test_layers_of_one_call_are_one_job_by_the_generator_of_its_kernel(
    client: TestClient, store: SqlStore
) -> None:
    shape = {"height": 8, "width": 8, "channels_in": 16, "channels_out": 32, "stride": 1}
    fused = {"kernel": BlockedExpandedConv.name, "params": shape}
    layers = [
        {"name": "a", "operator": "conv", "macs": 30, "steps_apart": 1, "within": "b"},
        {"name": "b", "operator": "conv", **fused, "macs": 30, "steps_apart": 1, "reads": [0]},
        {"name": "c", "operator": "add", "kernel": "add_u8", "reads": [1]},
    ]
    answer = client.post("/v1/networks", json={**BODY, "layers": layers, "generator": "halide"})
    assert answer.status_code == 201, answer.text
    made = answer.json()
    generators = [store.job(job["job"]).spec.generator for job in made["jobs"]]
    assert generators == ["intrinsics", "halide"]
    a, b, _ = client.get(answer.headers["Location"]).json()["layers"]
    assert (a["within"], a["kernel"], a["job"], a["steps_apart"]) == ("b", None, None, 1)
    assert (b["within"], b["kernel"]) == ("", BlockedExpandedConv.name)
    one = {"kernel": BlockedExpandedConv.name, "params": shape, "generator": "halide"}
    refused = client.post("/v1/jobs", json=one)
    assert refused.status_code == 422
    assert "generator 'halide' for blocked:qexpanded_conv2d_u8" in refused.json()["detail"]


def test_a_request_that_is_sent_again_makes_no_more_jobs(client: TestClient) -> None:
    key = {"Idempotency-Key": "k"}
    first = client.post("/v1/networks", json=BODY, headers=key)
    again = client.post("/v1/networks", json=BODY, headers=key)
    assert again.json() == first.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert client.post("/v1/networks", json={**BODY, "name": "x"}, headers=key).status_code == 409
    assert len(client.get("/v1/jobs").json()["items"]) == 2


def changed(place: int, **fields: Any) -> dict[str, Any]:
    layers = [dict(layer) for layer in LAYERS]
    layers[place] |= fields
    return {**BODY, "layers": layers}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({**BODY, "layers": []}, "layers"),
        ({**BODY, "weights": "AAAA"}, "weights: no such field"),
        (changed(0, weights=[1]), "layers.0.weights: no such field"),
        (changed(0, name="a\nb"), "layers.0.name: "),
        (changed(1, reads=[1]), "layers.1.reads has 1, which is not before it"),
        (changed(2, calls=10_000), "layers make 10002 calls of kernels"),
        (changed(2, within="d"), "layers.2 is within another, and has a kernel"),
        (changed(1, within="b"), "layers.1.within names none with a kernel"),
        (changed(2, kernel="nothing"), "layers.2: unknown kernel 'nothing'"),
    ],
)
def test_a_wrong_network_is_refused_by_key_and_makes_nothing(
    client: TestClient, store: SqlStore, body: dict[str, Any], said: str
) -> None:
    answer = client.post("/v1/networks", json=body)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
    assert store.jobs() == []


def test_too_many_workloads_are_refused(client: TestClient) -> None:
    one = {"operator": "conv", "kernel": "gemm_u8"}
    layers = [{**one, "name": f"l{n}", "params": {"m": n + 1}} for n in range(257)]
    answer = client.post("/v1/networks", json={**BODY, "layers": layers})
    assert answer.status_code == 422
    assert "layers have 257 different workloads, more than 256" in answer.json()["detail"]


def test_it_takes_the_scope_submit(store: SqlStore) -> None:
    app = create_app(store, CallerGate("bob", Scope.READ), Settings())
    assert TestClient(app).post("/v1/networks", json=BODY).status_code == 403


def document() -> dict[str, Any]:
    return json.loads(json.dumps(PLAN.document()))  # type: ignore[no-any-return]


def of_three_layers(client: TestClient) -> str:
    answer = client.post("/v1/networks", json={**BODY, "layers": LAYERS[:3]})
    return f"/v1/networks/{answer.json()['batch']}"


def test_a_plan_is_kept_and_given_back(client: TestClient, store: SqlStore) -> None:
    place = of_three_layers(client)
    missing = client.get(f"{place}/plan")
    assert missing.status_code == 404
    assert "has no plan" in missing.json()["detail"]
    assert client.put(f"{place}/plan", json=document()).status_code == 204
    assert client.get(f"{place}/plan").json() == document()
    assert newest_entries(store, limit=1)[0].action == "network.plan"
    other = {**document(), "plan": {**document()["plan"], "calls": 2}}
    assert client.put(f"{place}/plan", json=other).status_code == 204
    assert client.get(f"{place}/plan").json() == other


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"calls": "many"}, "plan, calls is 'many', not int"),
        ({"joy": 1}, "plan lacks a field or has an unknown one"),
        ({"layers": PLAN.document()["plan"]["layers"][:2], "bars": []}, "a plan of 2 layers"),
    ],
)
def test_a_wrong_plan_is_refused(client: TestClient, change: dict[str, Any], said: str) -> None:
    place = of_three_layers(client)
    wrong = {**document(), "plan": {**document()["plan"], "vtcm": [], **change}}
    answer = client.put(f"{place}/plan", json=wrong)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
    assert client.get(f"{place}/plan").status_code == 404


def test_others_may_not_give_a_plan(store: SqlStore) -> None:
    batch = stored(store, kind="network", tuned=())

    def asked(*scopes: Scope) -> int:
        app = create_app(store, CallerGate("bob", *scopes), Settings())
        return TestClient(app).put(f"/v1/networks/{batch.id}/plan", json=document()).status_code

    assert asked(Scope.READ, Scope.SUBMIT) == 403
    assert asked(Scope.OPERATE) == 422  # it has two layers, the plan three
    assert store.job(batch.members[0].job).state is JobState.QUEUED


def test_a_network_counts_as_its_jobs_in_quotas(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request counts as one by itself."""
    charged: list[int] = []
    gate = CallerGate("ann", *Scope, quotas=Quotas(trials_per_day=6))
    monkeypatch.setattr(gate, "charge", lambda caller, requests: charged.append(requests))
    client = TestClient(create_app(store, gate, Settings()))
    refused = client.post("/v1/networks", json=BODY)
    assert refused.status_code == 422
    assert "7 trials are more than trials_per_day=6" in refused.json()["detail"]
    assert client.post("/v1/networks", json={**BODY, "budget": {"trials": 5}}).status_code == 201
    assert charged == [1, 1]
