"""Where a request comes from: what its connection says, unless a proxy of ours says more."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from db.access.audit import newest_entries
from db.sql_store import SqlStore
from service.app import create_app
from service.auth.gate import Gate
from service.cli.app import app as commands
from service.settings import Settings, read_trusted
from service.token_text import new_token_text
from tests.service.auth.conftest import bearing
from tests.service.live import live
from tests.service.served import environment, served
from tuner.errors import UserError

pytestmark = pytest.mark.sqlite

PROXY, PROXY_6 = "10.1.2.3", "::ffff:10.1.2.3"
STRANGER = "198.51.100.7"
CLAIMED = {"X-Forwarded-For": "192.0.2.9", "X-Forwarded-Proto": "https"}
GetClient = Callable[..., TestClient]


@pytest.fixture
def client_from(store: SqlStore) -> GetClient:
    """Asks from an address a service that trusts some; five wrong tokens a minute are too many."""

    def make(address: str, *trusted: str) -> TestClient:
        settings = Settings(trusted_proxies=read_trusted(trusted))
        app = create_app(store, Gate(store, failures_per_minute=5), settings)
        return TestClient(app, client=(address, 4711), raise_server_exceptions=False)

    return make


def wrong() -> dict[str, str]:
    return bearing(new_token_text())


def client_in_audit(store: SqlStore) -> str:
    return newest_entries(store, 1)[0].client


@pytest.mark.parametrize(
    ("address", "trusted"),
    [("127.0.0.1", []), (STRANGER, [PROXY]), ("10.2.0.1", ["10.1.0.0/16"])],
)
def test_nobody_is_believed_but_those_who_were_named(
    client_from: GetClient, store: SqlStore, address: str, trusted: list[str]
) -> None:
    client = client_from(address, *trusted)
    client.get("/v1/kernels", headers={**wrong(), **CLAIMED})
    assert client_in_audit(store) == address
    cookie = client.get("/ui/login", headers=CLAIMED).headers["set-cookie"]
    assert "secure" not in cookie.lower()


@pytest.mark.parametrize(
    ("address", "trusted"), [(PROXY, [PROXY]), (PROXY_6, ["127.0.0.1, 10.0.0.0/8"])]
)
def test_a_proxy_of_ours_is(
    client_from: GetClient, store: SqlStore, address: str, trusted: list[str]
) -> None:
    client = client_from(address, *trusted)
    client.get("/v1/kernels", headers={**wrong(), **CLAIMED})
    assert client_in_audit(store) == "192.0.2.9"
    assert "secure" in client.get("/ui/login", headers=CLAIMED).headers["set-cookie"].lower()


def test_what_the_client_itself_claimed_before_the_proxy_does_not_count(
    client_from: GetClient, store: SqlStore
) -> None:
    through = f"203.0.113.1, {STRANGER}, 10.9.9.9"
    client_from(PROXY, "10.0.0.0/8").get(
        "/v1/kernels", headers={**wrong(), "X-Forwarded-For": through}
    )
    assert client_in_audit(store) == STRANGER


def test_forwarded_is_believed_of_nobody(client_from: GetClient, store: SqlStore) -> None:
    client_from(PROXY, PROXY).get(
        "/v1/kernels", headers={**wrong(), "Forwarded": "for=192.0.2.9;proto=https"}
    )
    assert client_in_audit(store) == PROXY


def test_guesses_of_a_stranger_count_whatever_he_claims(client_from: GetClient) -> None:
    client = client_from(STRANGER, PROXY)
    answers = [
        client.get("/v1/kernels", headers={**wrong(), "X-Forwarded-For": f"192.0.2.{n}"})
        for n in range(8)
    ]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 3


def test_guesses_behind_a_proxy_count_for_each_client(client_from: GetClient) -> None:
    client = client_from(PROXY, PROXY)

    def guess(address: str) -> int:
        headers = {**wrong(), "X-Forwarded-For": address}
        return client.get("/v1/kernels", headers=headers).status_code

    assert [guess("192.0.2.1") for _ in range(6)] == [401] * 5 + [429]
    assert guess("192.0.2.2") == 401


def test_the_log_of_requests_has_the_same_address(
    store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "uvicorn.access")
    for trusted, expected in (((), "127.0.0.1:"), (("127.0.0.1",), "192.0.2.9:")):
        caplog.clear()
        app = create_app(store, Gate(store), Settings(trusted_proxies=trusted))
        with live(app) as url:
            httpx.get(f"{url}/healthz", headers=CLAIMED)
        (line,) = [r.getMessage() for r in caplog.records if r.name == "uvicorn.access"]
        assert line.startswith(expected)


@pytest.mark.parametrize("text", ["proxy.lab", "*", "10.0.0.1/8"])
def test_only_addresses_can_be_named(text: str) -> None:
    done = CliRunner().invoke(commands, ["serve", "--trusted-proxy", text])
    assert isinstance(done.exception, UserError)
    assert "10.0.0.0/8" in done.exception.accepted


@pytest.mark.slow
def test_the_service_is_told_by_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--conductors", "0", "--access-log"]
    given = "10.0.0.0/8,127.0.0.1"
    monkeypatch.setattr(
        "tests.service.served.environment",
        lambda state, plain=environment: {**plain(state), "HVXTUNE_TRUSTED_PROXIES": given},
    )
    with served(tmp_path / "state", *arguments) as service:
        name = {"X-Request-ID": "from-the-proxy"}
        assert service.get("/healthz", headers={**CLAIMED, **name}).status_code == 200
        service.end()
        (line,) = [one for one in service.log.read_text().splitlines() if "/healthz" in one]
    assert "192.0.2.9" in line
    assert "[from-the-proxy]" in line
