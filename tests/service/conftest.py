"""A service in this process over an empty database, behind a gate that lets everybody in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from db import open_store
from db.sql_store import SqlStore
from service.app import create_app
from service.server.settings import Settings
from tests.databases import put_database
from tests.rig.scale_u8 import KERNELS
from tests.service.gates import OpenGate
from tuner.kernels import EXTRA_KERNELS_VARIABLE


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    """A new database in a state directory of its own; the test kernels can be found."""
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("HVXTUNE_DATABASE_URL", raising=False)
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    put_database(tmp_path / "state")
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
