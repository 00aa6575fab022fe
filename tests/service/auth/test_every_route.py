"""Every route there is refuses who may not use it. Made from the routes: a new one is covered."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from importlib import import_module

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from service.auth import Scope
from service.auth.gate import Gate
from service.auth.guard import OPEN_PATHS
from service.routers import ROUTERS
from service.token_text import new_token_text
from tests.service.auth.conftest import GetToken, bearing

pytestmark = pytest.mark.sqlite


def all_routes() -> Iterator[tuple[str, APIRoute]]:
    for name in ROUTERS:
        for route in import_module(name).router.routes:
            assert isinstance(route, APIRoute), f"{route} is no route whose scope can be told"
            for method in sorted(route.methods):
                yield method, route


def scopes_of(dependant: Dependant) -> set[tuple[Scope, ...]]:
    """What it needs: of each item one."""
    own = {dependant.call.scopes} if hasattr(dependant.call, "scopes") else set()
    return own.union(*(scopes_of(inner) for inner in dependant.dependencies))


GUARDED = [(method, route) for method, route in all_routes() if route.path not in OPEN_PATHS]


@pytest.fixture
def gate(store) -> Gate:
    return Gate(store, failures_per_minute=10_000)


def path_of(route: APIRoute) -> str:
    return re.sub(r"{[^}]*}", "0", route.path)


def test_every_route_names_its_scope_and_needs_it(client: TestClient, new_token: GetToken) -> None:
    admin = bearing(new_token("admin"))
    for method, route in GUARDED:
        scopes = scopes_of(route.dependant)
        assert scopes, f"{method} {route.path} names none"
        for needed in scopes:
            others = [scope for scope in Scope if scope not in (*needed, Scope.ADMIN)]
            headers = bearing(new_token(*others))
            answer = client.request(method, path_of(route), headers=headers)
            assert answer.status_code == 403, f"{method} {route.path}"
            assert answer.json()["accepted"] == f"a token with {' or '.join(needed)} or admin"
            assert f'scope="{needed[0]}"' in answer.headers["WWW-Authenticate"]
        with client.stream(method, path_of(route), headers=admin) as answer:
            assert answer.status_code not in (401, 403), f"{method} {route.path}: admin has all"


def test_every_route_needs_a_valid_token(client: TestClient, new_token: GetToken) -> None:
    now = time.time()
    never_stored = new_token_text()
    known = new_token("admin")
    wrong = {
        "none": {},
        "malformed": bearing("hvx_1_2"),
        "other scheme": {"Authorization": f"Basic {known.text}"},
        "unknown": bearing(never_stored),
        "another's secret": bearing(f"hvx_{known.id}_{never_stored.secret}"),
        "expired": bearing(new_token("admin", expires_at=now - 1)),
        "revoked": bearing(new_token("admin", revoked_at=now - 1)),
    }
    for method, route in GUARDED:
        for why, headers in wrong.items():
            # A body that cannot be read: who may not ask does not get as far.
            answer = client.request(method, path_of(route), headers=headers, content=b"{")
            assert answer.status_code == 401, f"{method} {route.path}: {why}"
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert answer.headers["WWW-Authenticate"].startswith("Bearer ")
            assert "hvxtune token create" in answer.json()["next_step"]


def test_what_no_route_serves_is_refused_too(client: TestClient) -> None:
    for path in ("/nowhere", "/v1", "/v1/nowhere", "/docs/", "/redoc", "/healthz/"):
        assert client.get(path).status_code == 401, path


def test_only_these_are_open(client: TestClient) -> None:
    assert {"/healthz", "/readyz", "/openapi.json", "/docs"} == OPEN_PATHS
    assert {path: client.get(path).status_code for path in OPEN_PATHS} == dict.fromkeys(
        OPEN_PATHS, 200
    )


def test_a_web_socket_is_refused(client: TestClient) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/v1/kernels"):
        pass
