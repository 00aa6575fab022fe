"""Schedules by id, their files, and pages of them."""

from __future__ import annotations

import base64
import re

from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from service.schemas import paging
from tests.service.stored import problem, store_schedule
from tuner.errors import UserError
from tuner.identity import digest_of_bytes


def test_an_object_comes_with_digest_contract_and_symbol(
    client: TestClient, store: SqlStore
) -> None:
    stored = store_schedule(store, problem(m=8, n=128, k=8), 100)
    about = client.get(f"/v1/schedules/{stored}").json()
    answer = client.get(about["links"]["object"])
    assert answer.content[:4] == b"\x7fELF"
    assert len(answer.content) == about["object_bytes"]
    assert digest_of_bytes(answer.content) == about["object_digest"]
    assert answer.headers["ETag"] == f'"{about["object_digest"]}"'
    stated = answer.headers["Repr-Digest"].removeprefix("sha-256=:").removesuffix(":")
    assert base64.b64decode(stated).hex() == about["object_digest"]
    assert answer.headers["X-Hvxtune-Contract"] == "static"
    assert answer.headers["X-Hvxtune-Symbol"] == about["symbol"]
    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.headers["Content-Type"] == "application/octet-stream"


def test_text_files_are_what_was_stored(client: TestClient, store: SqlStore) -> None:
    stored = store_schedule(store, problem(m=8, n=128, k=8), 100)
    artifact = store.artifact(client.get(f"/v1/schedules/{stored}").json()["object_digest"])
    for path in ("header", "schedule.h", "loopnest"):
        answer = client.get(f"/v1/schedules/{stored}/{path}")
        assert answer.content == artifact.files[path.removesuffix(".h")]
        assert answer.headers["Content-Type"].startswith("text/plain")
    missing = client.get(f"/v1/schedules/{stored}/assembly")
    assert (missing.status_code, "loopnest" in missing.json()["accepted"]) == (404, True)


def test_provenance_pins_everything(client: TestClient, store: SqlStore) -> None:
    stored = store_schedule(store, problem(m=8, n=128, k=8), 100)
    about = client.get(f"/v1/schedules/{stored}/provenance").json()
    job, _, trial = stored.rpartition("-")
    assert (about["job"], about["trial"]) == (job, int(trial))
    assert about["problem_digest"] == problem(m=8, n=128, k=8).digest
    assert set(about["files"]) == {"object", "header", "loopnest", "schedule"}


def test_unknown_ids_are_404(client: TestClient) -> None:
    for name in ("nothing", "nothing-0", "a-99999999999", "-", "a-b", "%2e%2e", "x" * 300):
        assert client.get(f"/v1/schedules/{name}").status_code == 404
        assert client.get(f"/v1/schedules/{name}/object").status_code == 404
        posted = client.post(f"/v1/schedules/{name}/quarantine", json={"reason": "x"})
        assert posted.status_code == 404


def test_pages_hold_each_schedule_once_newest_first(client: TestClient, store: SqlStore) -> None:
    stored = [store_schedule(store, problem(m=m, n=128, k=8), 100) for m in range(1, 8)]
    seen: list[str] = []
    query: dict[str, str] = {"limit": "3"}
    pages = 0
    while True:
        page = client.get("/v1/schedules", params=query).json()
        seen += [one["id"] for one in page["items"]]
        pages += 1
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == stored[::-1]
    assert pages == 3


def test_filters_narrow(client: TestClient, store: SqlStore) -> None:
    store_schedule(store, problem(m=8, n=128, k=8), 100)
    sobel = store_schedule(store, problem("sobel_u8", "none", "hexagon-v68"), 100)
    for query in (
        {"kernel": "sobel_u8"},
        {"target": "hexagon-v68"},
        {"contract": "none"},
        {"kernel": "sobel_u8", "fidelity": "model", "quarantined": "false"},
    ):
        items = client.get("/v1/schedules", params=query).json()["items"]
        assert [one["id"] for one in items] == [sobel]
    assert client.get("/v1/schedules", params={"fidelity": "hardware"}).json()["items"] == []


numbers = st.integers(-(2**63) + 1, 2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20
)


@given(numbers, floats, texts)
def test_cursors_come_back_as_they_went(number: int, at: float, name: str) -> None:
    cursor = paging.encode([number, at, name])
    assert paging.decode(cursor, int, float, str) == (number, at, name)
    assert re.fullmatch(r"[A-Za-z0-9_-]*", cursor)


@given(st.text(max_size=60) | texts.map(lambda text: paging.encode([text])))
def test_other_texts_are_no_cursors(text: str) -> None:
    try:
        (number,) = paging.decode(text, int)
    except UserError:
        return  # as the route test below sees it, a 422
    assert isinstance(number, int)
    assert abs(number) < 2**63
