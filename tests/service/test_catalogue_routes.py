"""Kernels, spaces and targets over REST."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tuner.codegen import space_of
from tuner.kernels import find_kernel, kernel_names
from tuner.problem.target import TARGETS

pytestmark = pytest.mark.sqlite


def test_kernels_are_listed_with_their_parameters(client: TestClient) -> None:
    items = client.get("/v1/kernels").json()["items"]
    assert [item["name"] for item in items] == kernel_names()
    assert items[0] == client.get("/v1/kernels/gemm_u8").json()
    assert [p["name"] for p in items[0]["params"]] == [
        p.name for p in find_kernel("gemm_u8").params
    ]


def test_an_unknown_kernel_is_not_found_and_the_near_one_named(client: TestClient) -> None:
    for path in ("/v1/kernels/gemm", "/v1/kernels/gemm/space"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["next_step"] == "did you mean gemm_u8?"


@pytest.mark.parametrize("query", ["param=h=8,n=1024", "param=h=8&param=n=1024"])
def test_a_space_belongs_to_a_problem(client: TestClient, query: str) -> None:
    answer = client.get(f"/v1/kernels/scale_u8/space?{query}&contract=host")
    kernel = find_kernel("scale_u8")
    from tuner.jobs.tuning import find_problem

    problem = find_problem("scale_u8", {"h": 8, "n": 1024}, "hexagon-v66", "host")
    assert answer.json()["digest"] == space_of(None, kernel, problem).digest
    assert answer.json()["default"] == {"generator": "halide", **kernel.default_config(problem)}


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("param=m=1x", "1x"),
        ("param=m=" + "9" * 5000, "m"),
        ("param=q=1", "q"),
        ("contact=static", "contact"),
    ],
    ids=lambda text: text[:20],
)
def test_a_wrong_problem_is_refused_by_name(client: TestClient, query: str, named: str) -> None:
    answer = client.get(f"/v1/kernels/gemm_u8/space?{query}")
    assert answer.status_code == 422
    assert named in answer.json()["detail"]


def test_targets_have_their_figures(client: TestClient) -> None:
    assert client.get("/v1/targets").json()["items"] == [t.as_dict() for t in TARGETS.values()]
