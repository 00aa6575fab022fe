"""A service in this process over an empty database, behind a gate that lets everybody in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from limits import strategies
from limits.storage import memory
from starlette.testclient import TestClient

from db import open_store
from db.sql_store import SqlStore
from service import openapi
from service.app import create_app
from service.settings import Settings
from tests.conftest import UseDatabase
from tests.rig.scale_u8 import KERNELS
from tests.service.gates import OpenGate
from tuner.kernels import EXTRA_KERNELS_VARIABLE


@pytest.fixture(scope="session", autouse=True)
def one_document() -> Iterator[None]:
    """Applications with the same routes share one OpenAPI document: it takes longer to derive than
    most tests take, and refused requests are explained by it."""
    derive = openapi._document
    kept: dict[tuple[object, ...], dict[str, Any]] = {}

    def document(app: FastAPI) -> dict[str, Any]:
        # Routers are the same modules in all; further routes are functions of tests.
        own = [route for route in app.routes if isinstance(route, APIRoute)]
        routes = (
            len(app.routes),
            *((r.path, r.endpoint.__module__, r.endpoint.__qualname__) for r in own),
        )
        if routes not in kept:
            kept[routes] = derive(app)
        return kept[routes]

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(openapi, "_document", document)
        yield


class Stopped:
    """Time that stands still."""

    def __init__(self) -> None:
        self._now = time.time()

    def time(self) -> float:
        return self._now


@pytest.fixture(autouse=True)
def one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates count by minutes of the clock, less and less of the one before: no test begins in one
    and ends in the next."""
    stopped = Stopped()
    for module in (memory, strategies):
        monkeypatch.setattr(module, "time", stopped)


@pytest.fixture
def store(
    tmp_path: Path, use_database: UseDatabase, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SqlStore]:
    """A new database, and a state directory of its own; the test kernels can be found."""
    use_database(tmp_path / "state")
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    opened = open_store()
    yield opened
    opened.close()


@pytest.fixture
def app(store: SqlStore) -> FastAPI:
    """The web application over ``store``."""
    return create_app(store, OpenGate(), Settings())


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    """Talks to ``app`` without a network; a fault of the service is an answer, as it is to
    clients."""
    return TestClient(app, raise_server_exceptions=False)
