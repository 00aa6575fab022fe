"""A client of a scripted server, with a cache of its own."""

from __future__ import annotations

import pytest

from service.client import Client
from service.client.cache import ClientCache
from tests.rig.scripted_server import scripted_server
from tuner.conformance.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "state"))
    for name in ("HVXTUNE_SERVER", "HVXTUNE_TARGET", "HVXTUNE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server():
    with scripted_server() as running:
        yield running


@pytest.fixture
def cache(tmp_path):
    return ClientCache(tmp_path / "cache")


@pytest.fixture
def client(server, cache):
    with Client(server.url, cache=cache, patience_s=PATIENCE_S) as made:
        yield made
