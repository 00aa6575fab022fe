"""A server on loopback that answers as a test tells it to, badly above all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = {"Content-Type": "application/json"}
PROBLEM = {"Content-Type": "application/problem+json"}


@dataclass
class Asked:
    """A request as it arrived; names in ``headers`` are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """What is sent back. With ``breaks_off`` the connection ends before the body does."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    breaks_off: bool = False

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def problem(status: int, detail: str, **fields: Any) -> Answer:
    """An error as the service tells it."""
    return Answer(
        status, {"status": status, "detail": detail, "kind": "user", **fields}, dict(PROBLEM)
    )


class ScriptedServer:
    """Gives the ``script`` answers in turn, the last one for ever; keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.script: list[Answer] | Callable[[Asked], Answer] = [Answer(200, {}, JSON)]
        self.url = ""

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if callable(self.script):
            return self.script(asked)
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """A server on a free port of loopback, gone when the context ends."""
    script = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size)
            if self.headers.get("Transfer-Encoding") == "chunked":
                while length := int(self.rfile.readline(), 16):
                    body += self.rfile.read(length)
                    self.rfile.readline()
                self.rfile.readline()
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = script.answer(Asked(self.command, self.path, headers, body))
            content = answer.content
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status != 304:
                self.send_header("Content-Length", str(len(content) + answer.breaks_off))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = answer.breaks_off

        do_GET = do_POST = do_DELETE = handle_one  # noqa: N815 - the names http.server looks for

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
