"""Tokens and the audit over REST."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from db.access.audit import newest_entries
from db.access.tokens import find_token
from db.sql_store import SqlStore
from service.token_text import new_token_text, parse
from tests.service.auth.conftest import GetToken, bearing

pytestmark = pytest.mark.sqlite

WANTED = {
    "name": "ci",
    "scopes": ["submit", "read"],
    "expires": "90d",
    "quotas": {"trials_per_day": 5000},
}


@pytest.fixture
def admin(client: TestClient, new_token: GetToken) -> TestClient:
    client.headers.update(bearing(new_token("admin", name="root")))
    return client


def test_a_token_is_made_shown_once_used_and_revoked(admin: TestClient, store: SqlStore) -> None:
    answer = admin.post("/v1/tokens", json=WANTED)
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    made = answer.json()
    text = parse(made.pop("token"))
    assert text is not None
    assert made["id"] == text.id
    assert made["scopes"] == ["read", "submit"]
    assert made["state"] == "valid"
    assert made["quotas"]["trials_per_day"] == 5000
    assert made["quotas"]["running_jobs"] is None
    assert made["expires_at"] - made["created_at"] == pytest.approx(90 * 86400, abs=60)
    assert admin.get("/v1/targets", headers=bearing(text)).status_code == 200
    assert admin.get("/v1/tokens", headers=bearing(text)).status_code == 403

    listed = {token["id"]: token for token in admin.get("/v1/tokens").json()["items"]}
    assert listed[text.id]["last_used_at"] is not None
    assert text.secret not in admin.get("/v1/tokens").text

    for _ in range(2):
        revoked = admin.delete(f"/v1/tokens/{text.id}").json()
        assert revoked["state"] == "revoked"
    assert admin.get("/v1/targets", headers=bearing(text)).status_code == 401
    stored = find_token(store, text.id)
    assert stored is not None
    assert revoked["revoked_at"] == stored.revoked_at


def test_changes_of_tokens_are_in_the_audit_without_secrets(admin: TestClient) -> None:
    made = admin.post("/v1/tokens", json=WANTED).json()
    admin.delete(f"/v1/tokens/{made['id']}")
    answer = admin.get("/v1/audit")
    revoke, create = answer.json()["items"]
    assert (create["action"], revoke["action"]) == ("token.create", "token.revoke")
    assert create["subject"] == revoke["subject"] == made["id"]
    assert create["detail"]["scopes"] == ["read", "submit"]
    assert create["token"] == revoke["token"] != made["id"]
    assert create["client"] == "testclient"
    assert made["token"].rpartition("_")[2] not in answer.text


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\n"}, "name"),
        ({"scopes": ["write"]}, "scopes"),
        ({"expires": "soon"}, "soon"),
        ({"expires": "0d"}, "expired"),
        ({"quotas": {"jobs": 1}}, "quotas.jobs"),
        ({"quotas": {"running_jobs": -1}}, "running_jobs"),
    ],
    ids=str,
)
def test_a_token_of_no_use_is_refused_by_name(
    change: dict[str, object], named: str, admin: TestClient, store: SqlStore
) -> None:
    answer = admin.post("/v1/tokens", json={**WANTED, **change})
    assert answer.status_code == 422
    assert named in answer.json()["detail"]
    assert newest_entries(store, 1) == []


def test_a_token_pasted_into_a_request_is_not_quoted(admin: TestClient) -> None:
    text = new_token_text()
    answers = [
        admin.post("/v1/tokens", json={**WANTED, "name": text.text, text.text: 1}),
        admin.delete(f"/v1/tokens/{text.text}"),
        admin.get(f"/v1/kernels/{text.text}"),
    ]
    assert [answer.status_code for answer in answers] == [422, 404, 404]
    assert [answer for answer in answers if text.secret in answer.text] == []
