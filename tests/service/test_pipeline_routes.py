"""Uploads over REST: what is taken, what is refused, and that nothing ends the service."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from service.app import create_app
from service.settings import Settings
from tests.rig.hostile_uploads import hostile_uploads
from tests.rig.unseen_pipelines import unseen_pipeline
from tests.rig.uploads import flipped, serialized_pipeline, truncated
from tests.service.gates import OpenGate
from tuner.identity import digest_of_bytes
from tuner.uploaded import files

pytestmark = pytest.mark.sqlite

LIMIT_BYTES = 64 << 10


@pytest.fixture
def app(store: SqlStore) -> FastAPI:
    return create_app(store, OpenGate(), Settings(upload_limit_bytes=LIMIT_BYTES))


def upload(client: TestClient, data: bytes, name: str = "blur"):
    return client.post(f"/v1/pipelines?name={name}", content=data)


def test_an_upload_is_stored_and_said_what_it_consists_of(
    client: TestClient, store: SqlStore
) -> None:
    data = serialized_pipeline()
    answer = upload(client, data)
    assert answer.status_code == 201
    found = answer.json()
    assert found["digest"] == digest_of_bytes(data)
    assert found["upload_bytes"] == len(data)
    assert found["user"] == "test"
    assert found["stages"] == [
        {"name": "rows", "dimensions": ["x", "y"], "types": ["uint16"], "updates": 1},
        {"name": "out", "dimensions": ["x", "y"], "types": ["uint8"], "updates": 0},
    ]
    assert found["inputs"] == [
        {"name": "image", "type": "uint8", "dimensions": 2, "is_buffer": True},
        {"name": "gain", "type": "int32", "dimensions": 0, "is_buffer": False},
    ]
    assert found["outputs"] == ["out"]
    (gain,) = (param for param in found["params"] if param["name"] == "gain")
    assert (gain["default"], gain["minimum"], gain["maximum"]) == (1, -(2**31), 2**31 - 1)
    assert found["kernel"] == f"pipeline:{found['digest'][:12]}"
    assert files.read(found["digest"]) == data
    assert client.get(answer.headers["Location"]).json() == found


def test_an_upload_that_can_be_tuned_is_answered_with_its_space(client: TestClient) -> None:
    found = upload(client, unseen_pipeline("sharpen")).json()
    assert found["not_tunable"] is None
    extents, loose = ["x", "y", "image_0", "image_1"], ["image_loose", "sharp_loose"]
    assert [param["name"] for param in found["params"]] == [*extents, *loose, "parallel"]
    assert {"lanes", "place_blurred"} <= {knob["name"] for knob in found["space"]["knobs"]}
    assert client.get(f"/v1/kernels/{found['kernel']}").json()["params"] == found["params"]


@pytest.mark.slow
def test_an_upload_that_cannot_be_tuned_is_stored_with_the_reason(client: TestClient) -> None:
    found = upload(client, serialized_pipeline("UInt(64)")).json()
    assert found["outputs"] == ["out"]
    assert (found["params"], found["space"]) == (None, None)
    assert "its scalar gain is of uint64" in found["not_tunable"]


@pytest.mark.slow
def test_best_queries_take_the_name_of_an_upload(client: TestClient) -> None:
    kernel = upload(client, unseen_pipeline("sharpen"), "crisp").json()["kernel"]
    asked = {"kernel": "pipeline:crisp", "params": {"x": 256, "y": 48}}
    missed = client.get("/v1/schedules/best?kernel=pipeline:crisp&param=x=256&param=y=48")
    (item,) = client.post("/v1/schedules/best:batch", json={"workloads": [asked]}).json()["items"]
    for form in (missed.json(), item):
        assert form["status"] == 404
        assert form["submit"]["kernel"] == kernel
    unknown = client.get("/v1/schedules/best?kernel=pipeline:crispy")
    assert unknown.status_code == 422


def test_the_same_bytes_again_stay_what_they_were(client: TestClient) -> None:
    first = upload(client, serialized_pipeline())
    again = upload(client, serialized_pipeline())
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {**first.json(), "created_at": again.json()["created_at"]}
    assert len(client.get("/v1/pipelines").json()["items"]) == 1


@pytest.mark.parametrize("name", ["", "../x", "x" * 64])
def test_a_name_that_no_kernel_could_have_is_refused(client: TestClient, name: str) -> None:
    assert upload(client, b"", name).status_code == 422


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"\x7fELF" + bytes(100), bytes(5000), serialized_pipeline()[:1000]],
    ids=["empty", "tiny", "foreign", "zeros", "truncated"],
)
def test_what_is_no_pipeline_is_refused(client: TestClient, data: bytes) -> None:
    answer = upload(client, data)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("not a pipeline")
    assert answer.json()["accepted"]
    assert client.get("/v1/pipelines").json()["items"] == []


def test_one_too_large_is_refused_whether_it_says_so_or_not(
    client: TestClient,
) -> None:
    told = upload(client, bytes(LIMIT_BYTES + 1))
    streamed = client.post(
        "/v1/pipelines?name=blur", content=(bytes(1 << 10) for _ in range(1 << 10))
    )
    for answer in (told, streamed):
        assert answer.status_code == 413
        assert str(LIMIT_BYTES) in answer.json()["accepted"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_damaged_uploads_never_end_the_service(client: TestClient, seed: int) -> None:
    """Halide's reader would crash on a third of these: each is one request's trouble."""
    seen: Counter[int] = Counter()
    for data in [*truncated(15, seed), *flipped(45, seed)]:
        answer = upload(client, data)
        seen[answer.status_code] += 1
        assert answer.json()["outputs" if answer.is_success else "next_step"]
    assert set(seen) <= {200, 201, 422}
    assert seen[422] >= 15
    assert client.get("/readyz").status_code == 200


@pytest.mark.slow
def test_hostile_uploads_are_refused_in_a_line_and_not_kept(client: TestClient) -> None:
    for name, (data, reason) in hostile_uploads().items():
        answer = upload(client, data)
        assert answer.status_code == 422, name
        assert re.search(reason, answer.json()["detail"]), name
        assert "\n" not in answer.json()["detail"], name
    assert client.get("/v1/pipelines").json()["items"] == []
    assert client.get("/readyz").status_code == 200
