"""How tokens are told apart: at once, cheaply, and by nothing that can be measured or guessed."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from db import open_store
from db.access.audit import newest_entries
from db.access.tokens import all_tokens, find_token, revoke_token
from db.sql_store import SqlStore
from service.app import create_app
from service.auth import audit as refusals
from service.auth import gate as token_gate
from service.auth.caller import network_of
from service.auth.gate import Gate
from service.settings import Settings
from service.token_text import TokenText, new_token_text
from tests.service.auth.conftest import GetToken, bearing
from tuner.errors import StoreError

pytestmark = pytest.mark.sqlite


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.began = time.time()

    def time(self) -> float:
        return self.began + self.passed_s

    def monotonic(self) -> float:
        return 1000.0 + self.passed_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (token_gate, refusals):
        monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def ask(client: TestClient) -> Callable[[TokenText | str], int]:
    """The status of a request with a token."""

    def ask(token: TokenText | str) -> int:
        return client.get("/v1/targets", headers=bearing(token)).status_code

    return ask


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids that were looked up in the database."""
    seen: list[str] = []

    def find(store: SqlStore, token_id: str):
        seen.append(token_id)
        return find_token(store, token_id)

    monkeypatch.setattr(token_gate, "find_token", find)
    return seen


def audited(store: SqlStore) -> list[tuple[str, str | None]]:
    """Reason and token of each refusal, oldest first."""
    found = newest_entries(store, 1000)
    return [(e.detail["reason"], e.token_id) for e in found if e.action == "auth.refuse"][::-1]


def test_a_token_in_use_is_looked_up_once_a_second(clock, ask, new_token, looked_up) -> None:
    token = new_token("read")
    assert [ask(token) for _ in range(5)] == [200] * 5
    assert len(looked_up) == 1
    clock.passed_s += 1.01
    assert [ask(token) for _ in range(5)] == [200] * 5
    assert len(looked_up) == 2


def test_what_another_process_revoked_is_refused_within_two_seconds(
    clock: Clock, ask, new_token: GetToken
) -> None:
    token = new_token("read")
    assert ask(token) == 200
    with open_store() as elsewhere:
        revoke_token(elsewhere, token.id)
    clock.passed_s += 1.01
    assert ask(token) == 401


def test_what_this_process_revoked_is_refused_at_once(
    clock: Clock, client: TestClient, ask, new_token: GetToken
) -> None:
    token, admin = new_token("read"), new_token("admin")
    assert ask(token) == 200
    assert client.delete(f"/v1/tokens/{token.id}", headers=bearing(admin)).status_code == 200
    assert ask(token) == 401


def test_a_token_expires_while_it_is_remembered(clock: Clock, client, new_token) -> None:
    token = new_token("read", expires_at=clock.time() + 0.5)
    assert client.get("/v1/targets", headers=bearing(token)).status_code == 200
    clock.passed_s += 0.6
    answer = client.get("/v1/targets", headers=bearing(token))
    assert answer.status_code == 401
    day = time.strftime("%Y-%m-%d", time.gmtime(clock.time()))
    assert f"expired on {day}" in answer.json()["detail"]
    assert token.secret not in answer.text


def test_a_refusal_says_what_is_wrong_and_who_must_act(client: TestClient, new_token) -> None:
    revoked = new_token("read", revoked_at=time.time())
    words = {
        "no token": {},
        "is not a token": bearing("nonsense"),
        "does not know the token": bearing(new_token_text()),
        "was revoked on": bearing(revoked),
    }
    for said, headers in words.items():
        problem = client.get("/v1/targets", headers=headers).json()
        assert said in problem["detail"]
        assert problem["kind"] == "user"
        assert "owner of the service" in problem["next_step"]


def test_an_id_that_exists_is_not_told_from_one_that_does_not(client, new_token) -> None:
    known, other = new_token("read"), new_token_text()
    client.headers["X-Request-ID"] = "one"
    refusals = [
        client.get("/v1/targets", headers=bearing(f"hvx_{token_id}_{other.secret}"))
        for token_id in (known.id, other.id)
    ]
    assert refusals[0].json() == refusals[1].json()
    assert refusals[0].headers["WWW-Authenticate"] == refusals[1].headers["WWW-Authenticate"]


def test_secrets_are_compared_in_constant_time_whether_the_id_exists_or_not(
    ask, new_token, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []

    class Noting:
        @staticmethod
        def compare_digest(a: str, b: str) -> bool:
            compared.append((len(a), len(b)))
            return hmac.compare_digest(a, b)

    monkeypatch.setattr(token_gate, "hmac", Noting)
    known = new_token("read")
    wrong = new_token_text()
    for token in (wrong.text, f"hvx_{known.id}_{wrong.secret}", known.text, known.text):
        compared.clear()
        ask(token)
        assert compared == [(64, 64)]


def test_a_token_counts_in_one_place_only(client: TestClient, new_token) -> None:
    text = new_token("read").text
    for sent in (
        [("Authorization", text)],
        2 * [("Authorization", f"Bearer {text}")],
        [("Authorization", f"Bearer {text}, Bearer {text}")],
        [("Authorization", f"Bearer Bearer {text}")],
        [("X-Token", text)],
        [("Cookie", f"token={text}")],
    ):
        answer = client.get("/v1/targets", headers=sent)
        assert answer.status_code == 401
        assert text not in answer.text


def test_a_token_in_the_address_is_refused_even_beside_a_good_one(
    client: TestClient, store: SqlStore, new_token: GetToken
) -> None:
    token = new_token("read")
    for query in (f"token={token.text}", f"access_token=Bearer+{token.text}", token.text):
        for headers in ({}, bearing(token)):
            answer = client.get(f"/v1/targets?{query}", headers=headers)
            assert answer.status_code == 401
            assert "revoke it" in answer.json()["next_step"]
            assert token.secret not in answer.text
    named_alike = client.get("/v1/kernels/hvx_a/space?param=hvx_b=1", headers=bearing(token))
    assert named_alike.status_code == 404


def test_the_last_use_is_noted_once_a_minute(clock: Clock, ask, new_token, store) -> None:
    token = new_token("read")

    def last_used() -> float | None:
        (found,) = all_tokens(store)
        return found.last_used_at

    assert last_used() is None
    ask(token)
    first = last_used()
    assert first == clock.time()
    clock.passed_s += 59
    ask(token)
    assert last_used() == first
    clock.passed_s += 2
    ask(token)
    assert last_used() == clock.time()


def test_a_database_that_takes_no_writes_keeps_no_reader_out(
    ask, new_token, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **values: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(token_gate, "mark_used", full)
    monkeypatch.setattr("db.access.audit.add_entry", full)
    assert ask(new_token("read")) == 200
    assert ask("nonsense") == 401


def test_a_database_that_does_not_answer_is_not_the_clients_fault(
    client: TestClient, new_token, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*arguments: object) -> None:
        raise StoreError("the database is away")

    token = new_token("read")
    monkeypatch.setattr(token_gate, "find_token", down)
    answer = client.get("/v1/targets", headers=bearing(token))
    assert answer.status_code == 503
    assert answer.json()["kind"] == "store"
    assert "Retry-After" in answer.headers


def test_requests_beyond_the_rate_wait(client: TestClient, new_token: GetToken) -> None:
    token = new_token("read", quotas={"requests_per_minute": 3})
    other = new_token("read")
    answers = [client.get("/v1/targets", headers=bearing(token)) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    refused = answers[-1]
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert refused.headers["RateLimit-Policy"] == '"requests";q=3;w=60'
    assert refused.headers["RateLimit"].startswith('"requests";r=0;t=')
    assert refused.json()["quota"] == "requests_per_minute"
    assert client.get("/v1/targets", headers=bearing(other)).status_code == 200


def test_guessing_ends_soon_and_in_use_tokens_go_on(store: SqlStore, new_token) -> None:
    client = TestClient(create_app(store, Gate(store, failures_per_minute=5), Settings()))
    in_use, not_seen = new_token("read"), new_token("read")

    def ask(token: TokenText) -> int:
        return client.get("/v1/targets", headers=bearing(token)).status_code

    assert ask(in_use) == 200
    assert [ask(new_token_text()) for _ in range(7)] == [401] * 5 + [429] * 2
    # Also with the id of a token that is in use: its secret is no easier to guess.
    assert ask(TokenText(in_use.id, new_token_text().secret)) == 429
    refused = client.get("/v1/targets", headers=bearing(new_token_text()))
    assert int(refused.headers["Retry-After"]) >= 1
    assert ask(in_use) == 200
    assert ask(not_seen) == 429, "a right guess would not be known from a wrong one"


def test_addresses_of_one_network_count_as_one() -> None:
    assert network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2::1")
    assert network_of("2001:db8:1:2::1") != network_of("2001:db8:1:3::1")
    assert network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert network_of("unknown") == "unknown"


def test_refusals_are_in_the_audit_a_row_a_kind(
    clock: Clock, ask, client: TestClient, store: SqlStore, new_token: GetToken
) -> None:
    reader = new_token("read")
    revoked = new_token("read", revoked_at=clock.time())
    for _ in range(3):
        ask("nonsense")
        ask(revoked)
        client.get("/v1/tokens", headers=bearing(reader))
    assert audited(store) == [
        ("malformed", None),
        ("revoked", revoked.id),
        ("scope admin", reader.id),
    ]
    clock.passed_s += 601
    ask("nonsense")
    (newest,) = newest_entries(store, 1)
    assert newest.detail == {"reason": "malformed", "left_out_before": 6}
    assert newest.subject == "/v1/targets"
    assert newest.client == "testclient"


def test_the_audit_cannot_be_flooded(store: SqlStore, clock: Clock) -> None:
    noted = refusals.Refusals(store)
    for number in range(1000):
        noted.note(f"192.0.2.{number}", "/v1/jobs", None, "unknown")
    assert len(audited(store)) == refusals.MOST_ROWS
