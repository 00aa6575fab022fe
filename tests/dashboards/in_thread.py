"""The pages served by a thread of this process: no conductor takes the jobs that a test made."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from db.sql_store import SqlStore
from service.app import create_app
from service.settings import Settings
from tests.service.gates import OpenGate
from tuner.conformance.patience import PATIENCE_S


@contextmanager
def pages_of(store: SqlStore) -> Iterator[str]:
    """The address of a service over ``store`` that lets everybody in with any token."""
    listening = socket.create_server(("127.0.0.1", 0))
    app = create_app(store, OpenGate(), Settings())
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(PATIENCE_S)
    listening.close()
