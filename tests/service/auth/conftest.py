"""A service behind the gate that it has in earnest."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from db.access.tokens import Token, add_token
from db.sql_store import SqlStore
from service.app import create_app
from service.auth import Scope
from service.auth.gate import Gate
from service.settings import Settings
from service.token_text import TokenText, new_token_text

GetToken = Callable[..., TokenText]


@pytest.fixture
def new_token(store: SqlStore) -> GetToken:
    """``new_token("read", name="ci")`` stores a token and gives its text."""

    def new_token(*scopes: Scope | str, name: str = "ci", **columns: object) -> TokenText:
        text = new_token_text()
        stored = Token(
            text.id,
            name,
            text.digest,
            [str(scope) for scope in scopes],
            created_at=time.time(),
            **columns,  # type: ignore[arg-type]
        )
        assert add_token(store, stored)
        return text

    return new_token


@pytest.fixture
def gate(store: SqlStore) -> Gate:
    return Gate(store)


@pytest.fixture
def app(store: SqlStore, gate: Gate) -> FastAPI:
    return create_app(store, gate, Settings())


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return TestClient(app, raise_server_exceptions=False)


def bearing(token: TokenText | str) -> dict[str, str]:
    """The header that shows ``token``."""
    return {"Authorization": f"Bearer {token if isinstance(token, str) else token.text}"}
