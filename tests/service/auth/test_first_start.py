"""A new service has one token, tells it once, and shows itself to others only when asked well."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from db.access.tokens import all_tokens, revoke_token
from db.sql_store import SqlStore
from service.auth import Scope
from service.auth.local_token import (
    check_exposure,
    ensure_token,
    keep_local_token,
    local_token,
    local_token_file,
    local_token_notes,
)
from service.server.serving import serve
from service.settings import Settings
from service.token_text import new_token_text, parse
from tests.service.auth.conftest import GetToken, bearing
from tests.service.served import served
from tuner.errors import UserError
from tuner.machine.addresses import is_loopback

pytestmark = pytest.mark.sqlite

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - what is refused here


def test_the_first_start_makes_one_token_for_everything(store: SqlStore) -> None:
    first = ensure_token(store)
    assert first is not None
    text = parse(first.text)
    assert text is not None
    (stored,) = all_tokens(store)
    assert stored.id == text.id
    assert stored.secret_digest == text.digest
    assert list(stored.scopes) == [Scope.ADMIN]
    assert local_token() == first.text
    assert stat.S_IMODE(first.file.stat().st_mode) == 0o600
    assert local_token_notes(store) == []


def test_later_starts_make_none(store: SqlStore) -> None:
    ensure_token(store)
    assert ensure_token(store) is None
    revoke_token(store, all_tokens(store)[0].id)
    assert ensure_token(store) is None, "one that was revoked does not come back by a restart"
    assert len(all_tokens(store)) == 1


def test_a_token_that_could_not_be_written_is_told_all_the_same(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "file"))
    first = ensure_token(store)
    assert first is not None
    assert str(tmp_path / "file") in first.note
    assert parse(first.text)


def test_commands_that_would_find_no_valid_token_are_noted(
    store: SqlStore, new_token: GetToken
) -> None:
    (note,) = local_token_notes(store)
    assert "hvxtune token create --local" in note
    for bad in (new_token_text(), new_token("read", expires_at=time.time() - 1)):
        keep_local_token(bad.text)
        (note,) = local_token_notes(store)
        assert "not valid for this database" in note
        assert bad.secret not in note
    local_token_file().chmod(0o644)
    (note,) = local_token_notes(store)
    assert "0644" in note


@pytest.mark.parametrize("host", ["127.1.2.3", "::1", "localhost"])
def test_this_machine_alone_needs_no_token_yet(host: str, store: SqlStore) -> None:
    assert is_loopback(host)
    assert check_exposure(store, Settings(host=host)) == []


@pytest.mark.parametrize("host", [ALL_ADDRESSES, "::", "", "192.0.2.1", "no.such.host.invalid"])
def test_other_addresses_need_a_valid_token(
    host: str, store: SqlStore, new_token: GetToken
) -> None:
    assert not is_loopback(host)
    new_token("admin", expires_at=time.time() - 1)
    new_token("admin", revoked_at=time.time())
    with pytest.raises(UserError, match="no valid token") as refused:
        check_exposure(store, Settings(host=host))
    assert "hvxtune token create --name NAME --scope admin" in refused.value.next_step
    assert "--tls-certificate" in refused.value.next_step
    new_token("read")
    (warning,) = check_exposure(store, Settings(host=host))
    assert "--tls-certificate" in warning
    assert check_exposure(store, Settings(host=host, tls_certificate="c", tls_key="k")) == []


def test_serve_refuses_to_be_reached_by_all_without_a_token(store: SqlStore) -> None:
    def never(_about: object) -> None:
        raise AssertionError("it listens")

    with pytest.raises(UserError, match=f"--host {ALL_ADDRESSES}"):
        serve(Settings(host=ALL_ADDRESSES, port=0, conductors=0), never)
    assert all_tokens(store) == [], "none is made behind anybody's back"
    assert not local_token_file().exists()


@pytest.mark.slow
def test_a_served_token_works_is_told_once_and_is_not_logged(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with served(state, "--conductors", "0", "--access-log") as service:
        assert service.about["token"] == service.token
        assert service.about["token_file"] == str(state / "token")
        assert service.get("/v1/kernels").status_code == 200
        assert service.get("/v1/kernels", headers={"Authorization": ""}).status_code == 401
        in_address = service.get(f"/v1/kernels?token={service.token}", headers=bearing("x"))
        assert in_address.status_code == 401
        assert service.token not in in_address.text
        assert service.end() == 0
    log = service.log.read_text()
    secret = service.token.rpartition("_")[2]
    assert "GET /v1/kernels" in log
    assert secret not in log
    kept = [path for path in state.rglob("*") if path.is_file() and path.name != "token"]
    assert [path for path in kept if secret.encode() in path.read_bytes()] == []
    with served(state, "--conductors", "0") as again:
        assert "token" not in again.about
        assert again.about["notes"] == []
        assert again.get("/v1/kernels").status_code == 200
