"""What a client keeps, and when it makes do with that."""

from __future__ import annotations

import pytest

from service.client import (
    Client,
    RefusedError,
    UnreachableError,
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


def test_the_last_answer_is_only_for_the_same_question(server, client, cache):
    server.script = [good(SCHEDULE, ETag='"1"'), problem(503, "busy", kind="store")]
    client.best("add_u8", {"n": 256}, contract="static")
    with Client(server.url, cache=cache, patience_s=0.1) as hasty, pytest.raises(UnreachableError):
        hasty.best("add_u8", {"n": 256}, contract="host")


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


def test_a_damaged_cache_is_as_good_as_none(server, client, tmp_path):
    server.script = [good(SCHEDULE, ETag='"1"')]
    client.best("add_u8")
    (kept,) = (tmp_path / "cache" / "answers").iterdir()
    kept.write_bytes(b'{"body": ')
    client.best("add_u8")
    assert "if-none-match" not in server.asked[1].headers


def test_a_cache_that_cannot_be_written_stops_nobody(server, tmp_path):
    from service.client.cache import ClientCache

    (tmp_path / "file").write_text("in the way")
    server.script = [good(SCHEDULE)]
    with Client(server.url, cache=ClientCache(tmp_path / "file")) as client:
        assert client.best("add_u8").id == "job1-7"


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


def test_a_file_with_another_stated_digest_is_refused(server, client):
    headers = {"Repr-Digest": "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"}
    server.script = [Answer(200, b"int f();", headers)]
    with pytest.raises(StoreError, match="the header of schedule job1-7"):
        client.file("job1-7", "header")


def test_a_damaged_object_in_the_cache_is_fetched_again(server, client, tmp_path):
    server.script = [Answer(200, OBJECT)]
    client.file("job1-7", "object")
    (kept,) = (tmp_path / "cache" / "files").iterdir()
    kept.write_bytes(b"rotten")
    assert client.file("job1-7", "object") == OBJECT
