"""Packages over REST: admins register them, everybody who may submit tunes them."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi import FastAPI
from httpx import Response
from starlette.testclient import TestClient

from db.access.audit import newest_entries
from db.sql_store import SqlStore
from service.app import create_app
from service.settings import Settings
from tests.service.gates import OpenGate
from tests.tuner.packages.broken import good_package
from tuner.conformance.patience import PATIENCE_S
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.packages.files import read_folder

pytestmark = pytest.mark.sqlite


@pytest.fixture
def app(store: SqlStore) -> FastAPI:
    return create_app(store, OpenGate(), Settings())


def registered(client: TestClient, folder: Path) -> Response:
    json_body = {"content-type": "application/json"}
    return client.post("/v1/packages", content=read_folder(folder).data, headers=json_body)


def test_a_registered_package_is_listed_and_can_be_asked_about(
    client: TestClient, tmp_path: Path
) -> None:
    folder = good_package(tmp_path / "smear")
    answer = registered(client, folder)
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert (found["package"], found["digest"]) == ("smear", read_folder(folder).digest)
    assert client.get("/v1/packages").json()["items"][0] == found
    kernels = [one["name"] for one in client.get("/v1/kernels").json()["items"]]
    assert found["kernel"] in kernels
    for name in (found["kernel"], "package:smear"):
        space = client.get(f"/v1/kernels/{name}/space").json()
        assert [knob["name"] for knob in space["knobs"]][:2] == ["ROWS", "UNROLL"]
    job = client.post("/v1/jobs", json={"kernel": "package:smear", "budget": {"trials": 1}})
    assert job.status_code == 201, job.text
    (made,) = job.json()["jobs"]
    assert (made["generator"], made["display_name"]) == ("package", "smear")
    other = client.post("/v1/jobs", json={"kernel": "package:smear", "generator": "hvx"})
    assert other.status_code == 422
    assert "package" in other.json()["accepted"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "files"),
        ({"files": {}}, "kernel.toml"),
        ({"files": {"kernel.toml": "no base64!"}}, "not a package"),
        ({"files": {"../kernel.toml": ""}}, "kernel.toml"),
        ({"files": {"kernel.toml": base64.b64encode(b"name = 1").decode()}}, "kernel.toml:1"),
    ],
)
def test_what_is_not_a_package_is_refused(client: TestClient, body: object, said: str) -> None:
    answer = client.post("/v1/packages", json=body)
    assert answer.status_code == 422
    assert said in json.dumps(answer.json())


def test_a_file_that_kernel_toml_does_not_name_is_refused(
    client: TestClient, tmp_path: Path
) -> None:
    files = json.loads(read_folder(good_package(tmp_path / "smear")).data)["files"]
    answer = client.post("/v1/packages", json={"files": {**files, "more.c": ""}})
    assert answer.status_code == 422
    assert "more.c" in answer.json()["detail"]


def test_a_package_is_removed_once_no_job_needs_it(
    client: TestClient, tmp_path: Path, store: SqlStore
) -> None:
    found = registered(client, good_package(tmp_path / "smear")).json()
    place = f"/v1/packages/{found['digest'][:12]}"
    job = client.post("/v1/jobs", json={"kernel": "package:smear", "budget": {"trials": 1}})
    (made,) = job.json()["jobs"]
    refused = client.delete(place)
    assert (refused.status_code, made["job"] in refused.json()["detail"]) == (409, True)
    client.post(f"/v1/jobs/{made['job']}/cancel")
    assert client.delete(place).json() == found
    assert client.get("/v1/packages").json()["items"] == []
    assert client.get(f"/v1/kernels/{found['kernel']}").status_code == 404
    assert client.get(f"/v1/jobs/{made['job']}").json()["display_name"] == "smear"
    assert client.delete(place).status_code == 404
    assert [one.action for one in newest_entries(store, 9)].count("package.remove") == 1


def test_nothing_waits_for_a_package_that_is_checked(
    client: TestClient, tmp_path: Path, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_free(*_: object) -> None:
        with ThreadPoolExecutor(1) as other:  # a transaction would keep it out
            other.submit(store.create_job, spec(), SPACE, TOOLCHAIN).result(PATIENCE_S)

    monkeypatch.setattr("tuner.packages.builds.c_sources.CBuild.check", is_free)
    assert registered(client, good_package(tmp_path / "smear")).status_code == 201
