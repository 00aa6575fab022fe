"""Every route refuses a parameter that a query names twice, or that it does not take."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

pytestmark = pytest.mark.sqlite


def test_a_parameter_that_is_unknown_or_named_twice_is_refused(client: TestClient) -> None:
    paths: dict[str, dict[str, Any]] = client.get("/openapi.json").json()["paths"]
    asked = 0
    for path, operations in paths.items():
        for method, operation in operations.items():
            named = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
            place = re.sub(r"{.*?}", "x", path)
            if not named:
                answer = client.request(method, f"{place}?x=1")
                assert answer.status_code == 422, f"{method} {path}: {answer.text}"
                assert answer.json()["detail"] == "x: no such field in this query"
            for name in named:
                url = f"{place}?{name}=1&{name}=2"
                answer = client.request(method, url)
                twice = f"'{name}' is given 2 times" in answer.text
                assert twice == (name != "param"), f"{method} {url}: {answer.text}"
                assert not twice or answer.status_code == 422
                asked += 1
    assert asked > 20


def test_parameters_of_a_workload_may_be_given_one_each(client: TestClient) -> None:
    answer = client.get("/v1/kernels/gemm_u8/space?param=m=64&param=n=128")
    assert answer.status_code == 200, answer.text
