"""Routes that change something leave a row in the audit. Made from the routes: who adds one that
does not call ``record`` learns it here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from fastapi.routing import APIRoute

from db.access.audit import newest_entries, prune_entries
from db.sql_store import SqlStore
from service.auth import audit
from service.routers import ROUTERS
from service.token_text import new_token_text

pytestmark = pytest.mark.sqlite

ONLY_ASKS = {"POST /v1/schedules/best:batch"}
"""Routes that change nothing, though their method may."""
MOST_CALLS = 6
"""How far from the route the row may be written."""

CHANGING = [
    (f"{method} {route.path}", route.endpoint)
    for name in ROUTERS
    for route in import_module(name).router.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods - {"GET", "HEAD", "OPTIONS"})
]


def names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def called_by(function: FunctionType) -> Iterator[FunctionType]:
    """The functions that a function names, itself or as parts of modules and classes it names."""
    names = set(names_in(function.__code__))
    known: dict[str, Any] = {**function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        known[name] = cell.cell_contents
    for found in (known[name] for name in names if name in known):
        if isinstance(found, FunctionType):
            yield found
        elif isinstance(found, (ModuleType, type)) and _is_ours(found):
            parts = vars(found)
            yield from (parts[n] for n in names if isinstance(parts.get(n), FunctionType))


def _is_ours(found: ModuleType | type) -> bool:
    module = found.__name__ if isinstance(found, ModuleType) else found.__module__
    return module.partition(".")[0] == "service"


def leads_to(function: Callable[..., Any], goal: object, calls: int = MOST_CALLS) -> bool:
    if not isinstance(function, FunctionType) or not calls:
        return False
    called = list(called_by(function))
    if any(one is goal for one in called):
        return True
    ours = [one for one in called if one.__module__.startswith("service.")]
    return any(leads_to(one, goal, calls - 1) for one in ours)


@pytest.mark.parametrize(("route", "endpoint"), CHANGING, ids=[name for name, _ in CHANGING])
def test_a_route_that_changes_something_records_it(
    route: str, endpoint: Callable[..., Any]
) -> None:
    assert leads_to(endpoint, audit.record) or route in ONLY_ASKS


def test_a_route_without_a_row_would_be_found() -> None:
    def silent() -> None:
        new_token_text()

    def recording() -> None:
        audit.record  # noqa: B018

    assert not leads_to(silent, audit.record)
    assert leads_to(recording, audit.record)


def test_texts_lose_tokens_on_their_way_to_the_audit(store: SqlStore) -> None:
    token = new_token_text()
    audit.record(
        store, None, "test.change", f"a {token.text}", {"b": [token.text], token.text: {"c": "\0"}}
    )
    (entry,) = newest_entries(store, 10)
    assert token.secret not in str(entry)
    assert token.id in entry.subject
    assert entry.client.startswith("command of ")


def test_old_rows_are_deleted_and_new_ones_stay(store: SqlStore) -> None:
    for number in range(3):
        audit.record(store, None, "test.change", str(number))
    newest, middle, _oldest = newest_entries(store, 3)
    assert prune_entries(store, older_than=middle.at) == 1
    assert newest_entries(store, 3) == [newest, middle]
    assert prune_entries(store, older_than=newest.at + 1) == 2
