"""What does not fit its route is refused by name, with what would have done."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from fastapi import FastAPI, Query
from pydantic import Field
from starlette.testclient import TestClient

from service.problem_details import install
from service.schemas.common import PageQuery, Strict


class Budget(Strict):
    trials: int | None = Field(None, ge=1)
    seconds: float | None = None


class Body(Strict):
    kernel: str
    budget: Budget | None = None
    several: list[Budget] = Field(default_factory=list)
    cache: Literal["warm", "cold"] = "warm"


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    install(app)

    @app.post("/jobs")
    def jobs(body: Body) -> Body:
        return body

    @app.get("/list")
    def listing(query: Annotated[PageQuery, Query()]) -> PageQuery:
        return query

    return TestClient(app, raise_server_exceptions=False)


def refusal(client: TestClient, **body: Any) -> dict[str, Any]:
    answer = client.post("/jobs", json={"kernel": "gemm_u8", **body})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    return dict(answer.json())


def test_an_unknown_field_names_those_there_are_and_the_near_one(client: TestClient) -> None:
    found = refusal(client, chache="warm")
    assert found["detail"] == "chache: no such field in this body"
    assert found["accepted"] == "budget, cache, kernel, several"
    assert found["next_step"] == "did you mean cache?"


def test_an_unknown_query_parameter_does_as_well(client: TestClient) -> None:
    found = client.get("/list?limits=5").json()
    assert found["detail"] == "limits: no such field in this query"
    assert found["accepted"] == "cursor, limit"
    assert found["next_step"] == "did you mean limit?"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"\\ud800": 1}', b'{"kernel": "\\ud800", "x": 1}'],
    ids=["empty", "cut", "no text", "nesting", "half a pair", "half a pair as value"],
)
def test_what_is_no_json_object_is_refused(client: TestClient, content: bytes) -> None:
    answer = client.post("/jobs", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["detail"]


def test_many_wrong_fields_do_not_make_an_answer_without_end(client: TestClient) -> None:
    answer = client.post(
        "/jobs", json={"kernel": "x", "several": [{f"{n:0300}": n} for n in range(1000)]}
    )
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 100
    assert len(answer.content) < 100_000
