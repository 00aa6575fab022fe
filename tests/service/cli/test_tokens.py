"""``token create``, ``list``, ``revoke`` and ``audit``."""

from __future__ import annotations

import stat
import time

import pytest

from service.auth.local_token import local_token, local_token_file
from service.cli.statuses import Exit
from service.token_text import parse

CREATE = ["token", "create", "--name", "ci", "--scope", "read", "--scope", "submit"]


def test_a_token_is_printed_once_on_a_line_of_its_own(hvxtune):
    answer = hvxtune(*CREATE, "--expires", "never")
    text = parse(answer.out.splitlines()[0])
    assert text is not None
    assert "read, submit" in answer.out
    assert "never" in answer.out
    for arguments in (["token", "list"], ["token", "list", "--all", "--json"], ["token", "audit"]):
        shown = hvxtune(*arguments)
        assert text.id in shown.out
        assert text.secret not in shown.out + shown.err


def test_a_token_has_what_was_asked_for(hvxtune):
    made = hvxtune(
        *CREATE,
        *("--expires", "12h", "--running-jobs", "2", "--trials-per-day", "5000"),
        *("--upload-bytes-per-day", "0", "--requests-per-minute", "60", "--json"),
    ).json
    assert parse(made["token"]).id == made["id"]
    assert made["expires_at"] == pytest.approx(time.time() + 12 * 3600, abs=60)
    assert made["quotas"] == {
        "running_jobs": 2,
        "trials_per_day": 5000,
        "upload_bytes_per_day": 0,
        "requests_per_minute": 60,
    }
    assert made["token_file"] is None
    assert not local_token_file().exists()
    (listed,) = hvxtune("token", "list", "--json").json["tokens"]
    assert {**listed, "token": made["token"], "token_file": None} == made


def test_a_token_lasts_a_year_unless_told_otherwise(hvxtune):
    made = hvxtune(*CREATE, "--json").json
    assert made["expires_at"] - made["created_at"] == pytest.approx(365 * 86400, abs=60)
    made = hvxtune(*CREATE, "--expires", "2999-01-31", "--json").json
    assert time.strftime("%Y-%m-%d", time.gmtime(made["expires_at"])) == "2999-01-31"


def test_a_local_token_is_left_where_commands_find_it(hvxtune):
    made = hvxtune("token", "create", "--local", "--json").json
    assert made["scopes"] == ["admin"]
    assert made["expires_at"] is None
    assert local_token() == made["token"]
    assert made["token_file"] == str(local_token_file())
    assert stat.S_IMODE(local_token_file().stat().st_mode) == 0o600
    narrow = hvxtune("token", "create", "--local", "--scope", "read", "--json").json
    assert narrow["scopes"] == ["read"]
    assert local_token() == narrow["token"]


def test_a_local_token_that_cannot_be_left_is_revoked(hvxtune):
    hvxtune("token", "list")
    local_token_file().mkdir()
    answer = hvxtune("token", "create", "--local")
    assert answer.status == Exit.UNREACHABLE
    assert str(local_token_file()) in answer.error_line
    (stored,) = hvxtune("token", "list", "--all", "--json").json["tokens"]
    assert stored["state"] == "revoked"


def test_a_revoked_token_stays_in_the_list_of_all(hvxtune):
    made = hvxtune(*CREATE, "--json").json
    other = hvxtune(*CREATE, "--json").json
    assert made["id"] in hvxtune("token", "revoke", made["id"]).out
    assert hvxtune("token", "revoke", other["token"], "--json").json["state"] == "revoked"
    assert hvxtune("token", "list", "--json").json == {"tokens": []}
    assert "hvxtune token create" in hvxtune("token", "list").out
    assert hvxtune("token", "list", "--all").out.count("revoked") == 2


def test_what_was_done_is_in_the_audit_until_it_is_pruned(hvxtune):
    assert "nothing" in hvxtune("token", "audit").out
    made = hvxtune(*CREATE, "--json").json
    hvxtune("token", "revoke", made["id"])
    entries = hvxtune("token", "audit", "--json").json["entries"]
    assert [entry["action"] for entry in entries] == ["token.revoke", "token.create"]
    assert {entry["subject"] for entry in entries} == {made["id"]}
    assert len(hvxtune("token", "audit", "--limit", "1", "--json").json["entries"]) == 1
    assert hvxtune("token", "audit", "--prune", "1", "--json").json == {"deleted": 0}
    assert hvxtune("token", "audit", "--prune", "0", "--json").json == {"deleted": 3}
    (left,) = hvxtune("token", "audit", "--json").json["entries"]
    assert left["action"] == "audit.prune"
    assert left["detail"] == {"deleted": 3}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["token", "create", "--name", "ci"], ["--scope", "read, submit, operate, admin"]),
        ([*CREATE, "--scope", "write"], ["'write'", "read", "admin"]),
        ([*CREATE, "--expires", "soon"], ["'soon'", "90d", "never"]),
        ([*CREATE, "--expires", "0001-01-01"], ["expired"]),
        ([*CREATE, "--running-jobs", "-1"], ["--running-jobs", "'-1'"]),
        (["token", "revoke", "zzz"], ["'zzz'", "hvxtune token list"]),
    ],
    ids=lambda value: " ".join(value)[-40:],
)
def test_a_wrong_request_is_one_line_and_changes_nothing(arguments, named, hvxtune):
    answer = hvxtune(*arguments)
    unknown = arguments[:2] == ["token", "revoke"]
    assert answer.status == (Exit.NOT_STORED if unknown else Exit.USAGE)
    line = answer.error_line
    assert [text for text in named if text not in line] == []
    assert hvxtune("token", "list", "--all", "--json").json == {"tokens": []}
