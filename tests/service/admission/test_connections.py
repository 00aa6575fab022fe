"""Connections that are slow, half open, or too many: closed, while others are answered."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse

from service.server.serving import configured
from service.settings import ConnectionLimits, Settings
from tuner.conformance.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow
"""Time-outs are waited for."""

LIMITS = ConnectionLimits(
    most=8, each=6, head_s=1.5, body_grace_s=1.5, stalled_answer_s=1.5, keep_alive_s=PATIENCE_S
)
HALF = b"GET /healthz HTTP/1.1\r\nhost: te"


def routes() -> FastAPI:
    app = FastAPI()
    app.state.held = threading.Event()
    app.state.holds = 0

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {}

    @app.get("/hold")
    async def hold(request: Request) -> dict[str, str]:
        request.app.state.holds += 1
        while not request.app.state.held.is_set():
            await asyncio.sleep(0.01)
        return {}

    @app.post("/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def lines() -> AsyncIterator[bytes]:
            while True:
                yield bytes(1 << 20)

        return StreamingResponse(lines())

    return app


@contextmanager
def serving(limits: ConnectionLimits = LIMITS, app: FastAPI | None = None) -> Iterator[int]:
    """The port where ``app`` is served as `hvxtune serve` does it."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        config = configured(app or routes(), Settings(connections=limits))
        config.timeout_graceful_shutdown = 1
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        port = listener.getsockname()[1]
        try:
            until(lambda: server.started)
            yield port
        finally:
            server.should_exit = True
            thread.join()


def opened(port: int, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    made.sendall(sent)
    return made


def to_its_end(connection: socket.socket) -> bytes:
    """All that comes until the service closes; fails if it never does."""
    said = b""
    try:
        while more := connection.recv(1 << 16):
            said += more
    except ConnectionResetError:
        pass
    connection.close()
    return said


def alive(port: int) -> bool:
    return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE_S).status_code == 200


def test_a_head_that_trickles_is_not_waited_for() -> None:
    with serving() as port, opened(port, HALF) as slow:
        slow.settimeout(0.05)

        def closed() -> bool:  # each byte alone would be soon enough
            try:
                slow.sendall(b"a")
                slow.recv(4096)
            except TimeoutError:
                return False
            except (ConnectionResetError, BrokenPipeError):
                pass
            return True

        until(closed)


def test_a_further_head_on_a_kept_connection_has_its_time_too() -> None:
    with serving() as port:
        kept = opened(port, b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n")
        assert kept.recv(4096).startswith(b"HTTP/1.1 200 ")
        kept.sendall(HALF)
        assert b"HTTP/1.1 408 " in to_its_end(kept)


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    head = b"POST /echo HTTP/1.1\r\nhost: test\r\ncontent-length: 100\r\n\r\n"
    with serving() as port:
        assert to_its_end(opened(port, head + b"some of it")).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_comes_fast_enough_may_take_long() -> None:
    limits = replace(LIMITS, body_bytes_per_s=100)
    with serving(limits) as port:
        slow = opened(port, b"POST /echo HTTP/1.1\r\nhost: test\r\ncontent-length: 2000\r\n\r\n")
        for _ in range(20):  # 3 s in all, twice the grace
            slow.sendall(bytes(100))
            threading.Event().wait(0.15)
        assert slow.recv(4096).endswith(b"2000")
        slow.close()


def test_an_answer_that_nobody_takes_is_given_up() -> None:
    with serving() as port, opened(port, b"GET /endless HTTP/1.1\r\nhost: test\r\n\r\n") as idle:
        idle.settimeout(0.05)

        def closed() -> bool:
            try:
                idle.send(b"\r\n")
            except (ConnectionResetError, BrokenPipeError):
                return True
            return False

        until(closed, look_every_s=0.05)


def test_more_half_open_connections_than_there_may_be_stop_nobody() -> None:
    limits = replace(LIMITS, head_s=PATIENCE_S)
    with serving(limits) as port:
        half_open = [opened(port, HALF) for _ in range(3 * LIMITS.most)]
        assert alive(port)
        assert to_its_end(half_open[0]) == b""  # it gave way
        half_open[-1].sendall(b"st\r\n\r\n")  # the newest is still there
        assert half_open[-1].recv(4096).startswith(b"HTTP/1.1 200 ")
        for one in half_open:
            one.close()


def test_who_was_answered_before_is_kept_while_half_open_ones_give_way() -> None:
    limits = replace(LIMITS, head_s=PATIENCE_S)
    request = b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n"
    with serving(limits) as port:
        kept = opened(port, request)
        assert kept.recv(4096).startswith(b"HTTP/1.1 200 ")
        half_open = [opened(port, HALF) for _ in range(3 * LIMITS.most)]
        assert alive(port)
        kept.sendall(request)
        assert kept.recv(4096).startswith(b"HTTP/1.1 200 ")
        for one in [kept, *half_open]:
            one.close()


def test_beyond_the_limit_of_an_address_a_connection_is_told_to_come_back() -> None:
    app = routes()
    with serving(app=app) as port:
        request = b"GET /hold HTTP/1.1\r\nhost: test\r\n\r\n"
        held = [opened(port, request) for _ in range(LIMITS.each)]
        until(lambda: app.state.holds == LIMITS.each)
        refused = to_its_end(opened(port, request))
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 2" in refused
        app.state.held.set()
        for one in held:
            assert one.recv(4096).startswith(b"HTTP/1.1 200 ")
            one.close()
        assert alive(port)
