"""Who is told what of a service that is, or is not, ready."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from service.token_text import new_token_text
from tests.service.auth.conftest import GetToken, bearing
from tuner.errors import StoreError

pytestmark = pytest.mark.sqlite


@pytest.mark.parametrize("scope", ["read", "operate", "admin"])
def test_who_may_look_is_told_which_database(
    client: TestClient, new_token: GetToken, store: SqlStore, scope: str
) -> None:
    about = client.get("/readyz", headers=bearing(new_token(scope))).json()
    assert about == {"status": "ready", "database": store.place.name, "conductors": 0, "unfit": []}


def test_a_token_that_is_not_enough_or_none_is_no_obstacle(
    client: TestClient, new_token: GetToken
) -> None:
    for token in (new_token("submit"), new_token_text(), "hvx_1_2"):
        answer = client.get("/readyz", headers=bearing(token))
        assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


@pytest.mark.parametrize("path", ["/readyz", "/v1/kernels", "/v1/schedules/best"])
def test_no_answer_to_a_stranger_names_the_database(
    client: TestClient, store: SqlStore, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def refuse() -> None:
        raise StoreError(
            "the database postgresql://hvx@db7.lab/hvx cannot be used",
            next_step="check the server and HVXTUNE_DATABASE_URL",
        )

    monkeypatch.setattr(store, "reading", refuse)
    monkeypatch.setattr(store, "writing", refuse)
    answer = client.get(path, headers=bearing(new_token_text()))
    assert answer.status_code == 503
    assert "db7.lab" not in answer.text
    assert "postgresql" not in answer.text
    assert answer.json()["detail"] == "the database cannot be used now"
