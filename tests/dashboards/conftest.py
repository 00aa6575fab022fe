"""The pages over a new database, and a browser's stand-in that has logged in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from fastapi import FastAPI
from httpx import Response
from starlette.testclient import TestClient

from db import open_store
from db.sql_store import SqlStore
from service.app import create_app
from service.auth.caller import Scope
from service.auth.gate import Gate
from service.settings import Settings
from tests.conftest import UseDatabase
from tests.dashboards.tokens import make_token
from tests.rig.scale_u8 import KERNELS
from tuner.kernels import EXTRA_KERNELS_VARIABLE


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
    return create_app(store, Gate(store), Settings())


Files = Mapping[str, tuple[str, bytes]]
"""Name and content of each, by field."""


class Browser(TestClient):
    """Keeps cookies, follows redirects, and sends forms with the token of the page they are on."""

    def form(self, page: str, action: str, files: Files | None = None, **fields: str) -> Response:
        found = re.search(r'name="csrf_token" value="([^"]+)"', self.get(page).text)
        assert found, f"no form on {page}"
        return self.post(action, data={"csrf_token": found.group(1), **fields}, files=files)


@pytest.fixture
def browser(app: FastAPI) -> Browser:
    """Without a session."""
    return Browser(app, raise_server_exceptions=False)


@pytest.fixture
def logged_in(app: FastAPI, store: SqlStore) -> Callable[..., Browser]:
    """Makes a browser with a session of a new token with these scopes."""

    def make(*scopes: Scope, name: str = "ada") -> Browser:
        browser = Browser(app, raise_server_exceptions=False)
        token = make_token(store, name, scopes or (Scope.ADMIN,))
        answer = browser.form("/ui/login", "/ui/login", token=token.text)
        assert answer.status_code in (200, 403)
        return browser

    return make
