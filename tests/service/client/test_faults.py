"""Services that are busy, gone, broken or something else: what a client makes of them."""

from __future__ import annotations

import json
import socket

import pytest

from service.auth.local_token import keep_local_token
from service.client import (
    Client,
    RefusedError,
    ServiceFaultError,
    UnreachableError,
)
from service.client.connection import find_server, find_token
from tests.rig.scripted_server import JSON, Answer, problem
from tests.service.client.replies import BUSY, JOBS, good
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import UserError
from tuner.problem.default_target import TARGET_VARIABLE


@pytest.fixture
def closed_address():
    """Where nobody listens, nor will: the port is taken."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("status", [429, 503])
def test_what_may_pass_is_tried_again(server, client, status):
    server.script = [problem(status, "not now"), BUSY, good({"items": [{"name": "add_u8"}]})]
    assert client.kernels() == [{"name": "add_u8"}]
    assert len(server.asked) == 3


def test_a_broken_connection_is_tried_again(server, client):
    server.script = [Answer(200, b"{", JSON, breaks_off=True), good({"items": []})]
    assert client.kernels() == []
    assert len(server.asked) == 2


@pytest.mark.parametrize("status", [404, 500])
def test_what_will_not_pass_is_not(server, client, status):
    server.script = [problem(status, "no", kind="internal" if status == 500 else "user")]
    with pytest.raises((RefusedError, ServiceFaultError)):
        client.kernels()
    assert len(server.asked) == 1


def test_nobody_waits_longer_than_their_patience(server, cache):
    server.script = [problem(503, "come back later", kind="store")]
    server.script[0].headers["Retry-After"] = "3600"
    with (
        Client(server.url, cache=cache, patience_s=PATIENCE_S) as client,
        pytest.raises(UnreachableError, match="come back later"),
    ):
        client.kernels()
    assert len(server.asked) == 1


def test_a_job_submitted_again_and_again_is_one_job(server, client):
    server.script = [BUSY, Answer(201, b"{", JSON, breaks_off=True), JOBS]
    assert client.submit("add_u8", {"n": 256}, trials=8, seed=1)[0]["job"] == "job1"
    keys = {asked.headers["idempotency-key"] for asked in server.asked}
    assert len(server.asked) == 3
    assert len(keys) == 1
    assert json.loads(server.asked[-1].body) == {
        "kernel": "add_u8",
        "params": {"n": 256},
        "seed": 1,
        "budget": {"trials": 8, "seconds": None, "patience": None, "until_gain": None},
    }


def test_a_target_is_sent_only_if_it_was_named(server, client, monkeypatch):
    server.script = [JOBS]
    for variable, option, sent in (
        (None, {}, None),
        ("hexagon-v68", {}, "hexagon-v68"),
        ("hexagon-v68", {"target": "hexagon-v73"}, "hexagon-v73"),
    ):
        if variable is not None:
            monkeypatch.setenv(TARGET_VARIABLE, variable)
        client.submit("add_u8", **option)
        client.submit_network("net", [], **option)
        assert [json.loads(asked.body).get("target") for asked in server.asked[-2:]] == [sent] * 2


def test_errors_keep_their_parts(server, client):
    server.script = [problem(422, "n=0 of add_u8", accepted="1 to 9", next_step="try n=1", x=[1])]
    with pytest.raises(UserError) as caught:
        client.best("add_u8", {"n": 0})
    assert caught.value.as_dict() == {
        "kind": "user",
        "message": "n=0 of add_u8",
        "accepted": "1 to 9",
        "next_step": "try n=1",
    }
    assert caught.value.status == 422
    assert caught.value.problem["x"] == [1]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"<html>welcome</html>", {"Content-Type": "text/html"}),
        Answer(404, b"<html>nothing here</html>", {"Content-Type": "text/html"}),
        Answer(200, [], JSON),
        Answer(200, {"kernels": []}, JSON),
    ],
    ids=["page", "no such page", "a list", "other fields"],
)
def test_another_server_is_named_as_such(server, client, answer):
    server.script = [answer]
    with pytest.raises(UserError, match=f"{server.url} answers, but is not an hvxtune service"):
        client.kernels()


def test_nobody_there_is_said_with_the_address(cache, closed_address):
    said = f"no service answers at {closed_address}"
    with Client(closed_address, cache=cache, patience_s=0) as client:
        with pytest.raises(UnreachableError, match=said) as caught:
            client.kernels()
        assert "hvxtune serve" in str(caught.value)


def test_names_cannot_leave_their_path(server, client):
    server.script = [problem(404, "no job")]
    with pytest.raises(RefusedError):
        client.job("../../v1/tokens?x=")
    assert server.asked[0].path == "/v1/jobs/..%2F..%2Fv1%2Ftokens%3Fx%3D"
    with pytest.raises(UserError):
        client.job("..")


def test_a_file_is_sent_whole_each_time(server, client, tmp_path):
    (tmp_path / "all.ndjson").write_bytes(b"line\n" * 30_000)
    server.script = [BUSY, good({"taken": 1})]
    assert client.import_(tmp_path / "all.ndjson") == {"taken": 1}
    assert [len(asked.body) for asked in server.asked] == [150_000, 150_000]


def test_a_file_is_saved_whole_or_not_at_all(server, client, tmp_path):
    server.script = [
        Answer(200, b"half", breaks_off=True),
        problem(403, "not allowed"),
        Answer(200, b"whole"),
    ]
    with pytest.raises(RefusedError):
        client.export(tmp_path / "all.ndjson")
    assert list(tmp_path.glob("*ndjson*")) == []
    client.export(tmp_path / "all.ndjson")
    assert (tmp_path / "all.ndjson").read_bytes() == b"whole"


def test_a_token_is_sent_and_never_shown(server, cache, monkeypatch):
    server.script = [problem(401, "no valid token")]
    monkeypatch.setenv("HVXTUNE_TOKEN", "hvx_1_fromenvironment")
    for given in (None, "hvx_1_given"):
        with Client(server.url, token=given, cache=cache) as client:
            with pytest.raises(RefusedError) as caught:
                client.kernels()
            assert "hvx_1" not in str(caught.value)
    sent = [asked.headers["authorization"] for asked in server.asked]
    assert sent == ["Bearer hvx_1_fromenvironment", "Bearer hvx_1_given"]


def test_the_local_token_goes_to_this_machine_only(server, cache):
    keep_local_token("hvx_1_left_here")
    server.script = [good({"items": []})]
    with Client(server.url, cache=cache) as client:
        client.kernels()
    assert server.asked[0].headers["authorization"] == "Bearer hvx_1_left_here"
    for elsewhere in ("http://tuning.example", "https://127.0.0.1.example", "http://10.0.0.1"):
        assert find_token(elsewhere, None) is None


@pytest.mark.parametrize("first", [BUSY, problem(401, "no token")], ids=["busy", "no token"])
def test_a_token_left_while_the_service_starts_is_found(server, cache, first):
    def start(asked):
        if len(server.asked) == 1:
            keep_local_token("hvx_1_left_late")
            return first
        return good({"items": []})

    server.script = start
    with Client(server.url, cache=cache) as client:
        client.kernels()
    sent = [asked.headers.get("authorization") for asked in server.asked]
    assert sent == [None, "Bearer hvx_1_left_late"]


def test_what_is_said_to_this_machine_goes_through_no_proxy(
    server, cache, closed_address, monkeypatch
):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, closed_address)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    server.script = [good({"items": []})]
    with Client(server.url, cache=cache, patience_s=0) as client:
        assert client.kernels() == []


@pytest.mark.parametrize(
    "text",
    ["", "localhost:8100", "ftp://x", "http://", "http://x:port", "http://me@x", "http://x?y=1"],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UserError, match=r"http://127\.0\.0\.1:8100"):
        find_server(text)
