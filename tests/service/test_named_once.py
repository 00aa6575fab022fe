"""A parameter that a query names twice is refused by every route."""

from __future__ import annotations

import re
from typing import Any

from fastapi.testclient import TestClient


def test_a_parameter_that_is_named_twice_is_refused(client: TestClient) -> None:
    paths: dict[str, dict[str, Any]] = client.get("/openapi.json").json()["paths"]
    asked = 0
    for path, operations in paths.items():
        for method, operation in operations.items():
            named = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
            for name in named:
                url = f"{re.sub(r'{.*?}', 'x', path)}?{name}=1&{name}=2"
                answer = client.request(method, url)
                twice = f"'{name}' is given 2 times" in answer.text
                assert twice == (name != "param"), f"{method} {url}: {answer.text}"
                assert not twice or answer.status_code == 422
                asked += 1
    assert asked > 20


def test_parameters_of_a_workload_may_be_given_one_each(client: TestClient) -> None:
    answer = client.get("/v1/kernels/gemm_u8/space?param=m=64&param=n=128")
    assert answer.status_code == 200, answer.text
