"""What any service says of itself, before there is one: tests are named after its routes."""

from __future__ import annotations

from typing import Any

from db.engine import find_url, make_engine, place_of
from db.sql_store import SqlStore
from service.app import create_app
from service.settings import Settings
from tests.service.gates import OpenGate


def document() -> dict[str, Any]:
    """The OpenAPI document. No database is opened to make it: engines connect when they must."""
    url = find_url("sqlite:///nowhere.sqlite")
    store = SqlStore(make_engine(url, busy_timeout_s=0.0), place_of(url), "folder:nowhere")
    return create_app(store, OpenGate(), Settings()).openapi()
