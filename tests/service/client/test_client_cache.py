"""What a client keeps, and when it makes do with that."""

from __future__ import annotations

import pytest

from service.client import (
    RefusedError,
)
from tests.rig.scripted_server import Answer, problem
from tests.service.client.replies import OBJECT, SCHEDULE, good
from tuner.errors import StoreError


def test_the_last_answer_is_used_and_said_to_be_old(server, client):
    server.script = [good(SCHEDULE, ETag='"1"'), Answer(503, b"")]
    fresh = client.best("add_u8", {"n": 256}, contract="static")
    assert not fresh.from_cache
    old = client.best("add_u8", {"n": 256}, contract="static")
    assert old.document == fresh.document
    assert old.from_cache
    assert old.age_s >= 0
    assert "503" in old.reason


def test_a_refusal_is_not_papered_over_by_the_cache(server, client):
    server.script = [good(SCHEDULE, ETag='"1"'), problem(401, "no valid token")]
    client.best("add_u8")
    with pytest.raises(RefusedError, match="no valid token"):
        client.best("add_u8")


def test_an_answer_is_asked_for_again_by_its_etag(server, client):
    server.script = [good(SCHEDULE, ETag='"1"'), Answer(304, b"", {"ETag": '"1"'})]
    assert client.best("add_u8").document == client.best("add_u8").document == SCHEDULE
    assert "if-none-match" not in server.asked[0].headers
    assert server.asked[1].headers["if-none-match"] == '"1"'


def test_an_object_is_fetched_once(server, client):
    server.script = lambda asked: (
        Answer(200, OBJECT) if asked.path.endswith("/object") else good(SCHEDULE)
    )
    best = client.best("add_u8")
    assert client.file(best, "object") == client.file(best, "object") == OBJECT
    assert [asked.path for asked in server.asked].count("/v1/schedules/job1-7/object") == 1


def test_an_object_that_is_not_the_promised_one_is_refused(server, client, tmp_path):
    server.script = lambda asked: (
        Answer(200, b"evil") if asked.path.endswith("/object") else good(SCHEDULE)
    )
    best = client.best("add_u8")
    with pytest.raises(StoreError, match="changed or damaged"):
        client.file(best, "object")
    assert not (tmp_path / "cache" / "files").exists()


def test_a_damaged_object_in_the_cache_is_fetched_again(server, client, tmp_path):
    server.script = [Answer(200, OBJECT)]
    client.file("job1-7", "object")
    (kept,) = (tmp_path / "cache" / "files").iterdir()
    kept.write_bytes(b"rotten")
    assert client.file("job1-7", "object") == OBJECT
