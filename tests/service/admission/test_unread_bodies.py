"""Who is refused is told at once, and what else they send is not read."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI

from db.access.tokens import Token, add_token
from db.sql_store import SqlStore
from service.admission import bodies as unread_bodies
from service.admission.bodies import LINGER_BYTES
from service.app import create_app
from service.auth.gate import Gate
from service.settings import Settings
from service.token_text import new_token_text
from tests.service.live import live
from tuner.conformance.patience import PATIENCE_S

pytestmark = pytest.mark.sqlite

HUGE = 512 << 20
SHOWN = {"none": None, "read": ("read",), "submit": ("submit",), "admin": ("admin",)}


@pytest.fixture
def tokens(store: SqlStore) -> dict[str, str]:
    """Their texts by scope; ``spent`` may not send another request this minute."""
    found = {}
    for name, scopes in {**SHOWN, "spent": ("admin",), "full": ("submit",)}.items():
        text = new_token_text()
        quotas = {"spent": {"requests_per_minute": 1}, "full": {"upload_bytes_per_day": 10}}
        if scopes:
            stored = Token(text.id, name, text.digest, scopes, quotas.get(name, {}))
            assert add_token(store, stored)
        found[name] = text.text
    return found


@pytest.fixture
def address(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(unread_bodies, "LINGER_S", 0.2)
    app: FastAPI = create_app(store, Gate(store), Settings())
    with live(app) as url:
        yield "127.0.0.1", urlsplit(url).port or 0


def head(path: str, token: str, **more: Any) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def answer_of(line: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body; the status alone where there is none, as of 100."""
    reader = line.makefile("rb")
    status = int(reader.readline().split()[1])
    headers = {}
    while (one := reader.readline().strip()) != b"":
        name, _, value = one.decode().partition(": ")
        headers[name.lower()] = value
    return status, headers, reader.read(int(headers.get("content-length", 0)))


REFUSED = [
    ("/v1/jobs", "none", HUGE >> 10, 401),
    ("/v1/pipelines", "none", 1 << 20, 401),
    ("/v1/jobs", "read", 1 << 19, 403),
    ("/v1/pipelines", "read", 1 << 20, 403),
    ("/v1/tokens", "submit", 1 << 19, 403),
    ("/v1/import", "submit", HUGE, 403),
    ("/v1/jobs", "submit", HUGE, 413),
    ("/v1/pipelines", "full", 1 << 20, 422),
    ("/v1/nowhere", "admin", 1 << 19, 404),
    ("/v1/kernels", "admin", 1 << 19, 405),
    ("/ui/jobs/x/cancel", "none", 1 << 19, 303),
]


def test_the_answer_comes_before_the_body_and_ends_the_connection(
    address: tuple[str, int], tokens: dict[str, str]
) -> None:
    for path, token, size, status in REFUSED:
        for more in ({}, {"Expect": "100-continue"}):
            with closing(socket.create_connection(address, timeout=PATIENCE_S)) as line:
                known = {"Content_Length": size, "Content_Type": "a/b"}
                line.sendall(head(path, tokens[token], **known, **more))
                found, headers, body = answer_of(line)  # before a single byte of the body
                assert (found, headers["connection"]) == (status, "close")
                if body:
                    assert headers["content-type"] == "application/problem+json"
                line.sendall(b"x" * 1000)
                assert rest_of(line) == b""


def test_who_may_send_gets_leave(address: tuple[str, int], tokens: dict[str, str]) -> None:
    with closing(socket.create_connection(address, timeout=PATIENCE_S)) as line:
        more = {"Content_Type": "application/json", "Expect": "100-continue"}
        line.sendall(head("/v1/jobs", tokens["submit"], Content_Length=2, **more))
        assert answer_of(line)[0] == 100
        line.sendall(b"{}")
        assert answer_of(line)[:2][0] == 422
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer_of(line)[0] == 200, "a body that was read leaves the connection open"


def test_a_token_beyond_its_rate_is_told_before_its_body(
    address: tuple[str, int], tokens: dict[str, str]
) -> None:
    for status in (404, 429):
        with closing(socket.create_connection(address, timeout=PATIENCE_S)) as line:
            line.sendall(head("/v1/nowhere", tokens["spent"], Content_Length=HUGE >> 10))
            assert answer_of(line)[0] == status


@pytest.mark.parametrize("path", ["/v1/pipelines", "/ui/logout"])
def test_a_body_without_end_is_not_read_on(
    address: tuple[str, int], tokens: dict[str, str], path: str
) -> None:
    with closing(socket.create_connection(address, timeout=PATIENCE_S)) as line:
        line.sendall(head(path, tokens["none"], Transfer_Encoding="chunked"))
        with pytest.raises(ConnectionError):
            # More than the buffers of both ends hold.
            send_chunks(line, LINGER_BYTES + (32 << 20))


def send_chunks(line: socket.socket, size: int) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    for _ in range(size // len(chunk)):
        line.sendall(chunk)


def test_others_do_not_wait_for_those_who_never_send(
    address: tuple[str, int], tokens: dict[str, str]
) -> None:
    lines = [socket.create_connection(address, timeout=PATIENCE_S) for _ in range(30)]
    for line in lines:
        line.sendall(head("/v1/jobs", tokens["read"], Content_Length=1000))
    done = threading.Event()

    def ask() -> None:
        with closing(socket.create_connection(address, timeout=PATIENCE_S)) as other:
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer_of(other)[0] == 200
            done.set()

    threading.Thread(target=ask).start()
    assert done.wait(PATIENCE_S)
    for line in lines:
        assert answer_of(line)[0] == 403
        line.close()


def rest_of(line: socket.socket) -> bytes:
    """What comes until the service closes the connection."""
    deadline = time.monotonic() + PATIENCE_S
    found = b""
    while time.monotonic() < deadline:
        try:
            data = line.recv(1 << 16)
        except ConnectionError:
            return found
        if not data:
            return found
        found += data
    raise AssertionError("the connection stays open")
