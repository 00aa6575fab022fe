"""What tokens and the audit promise on every database."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from db.audit import add_entry, newest_entries, prune_entries
from db.sql_store import SqlStore
from db.tokens import (
    Token,
    add_first_token,
    add_token,
    all_tokens,
    find_token,
    mark_used,
    revoke_token,
)
from db.usage import bytes_uploaded, trials_asked_for
from tests.tuner.sample_records import SPACE, TOOLCHAIN, failed, spec
from tuner.errors import UserError
from tuner.trial import Submission

TOKEN = Token(
    "a2b3c4d5",
    "ci",
    "0" * 64,
    ("read", "submit"),
    {"trials_per_day": 1 << 40},
    created_at=1000.5,
    expires_at=2000.25,
)


class AccessConformance:
    """Inherited with a fixture ``store`` of an empty database."""

    def test_a_token_comes_back_as_it_was_stored(self, store: SqlStore) -> None:
        assert add_token(store, TOKEN)
        assert find_token(store, TOKEN.id) == TOKEN
        assert find_token(store, "zzzzzzzz") is None
        assert "0000" not in repr(TOKEN)

    def test_an_id_is_given_once(self, store: SqlStore) -> None:
        add_token(store, TOKEN)
        assert not add_token(store, replace(TOKEN, name="other"))
        assert all_tokens(store) == [TOKEN]

    def test_a_first_token_is_the_first(self, store: SqlStore) -> None:
        assert add_first_token(store, TOKEN)
        assert not add_first_token(store, replace(TOKEN, id="other"))
        assert all_tokens(store) == [TOKEN]

    def test_a_token_is_revoked_once(self, store: SqlStore) -> None:
        add_token(store, TOKEN)
        first = revoke_token(store, TOKEN.id)
        assert first.revoked_at == pytest.approx(time.time(), abs=60)
        assert revoke_token(store, TOKEN.id) == first
        assert find_token(store, TOKEN.id) == first
        assert not first.is_valid(1500.0)
        with pytest.raises(UserError, match="'zzzzzzzz'"):
            revoke_token(store, "zzzzzzzz")

    def test_a_token_is_valid_until_it_expires(self, store: SqlStore) -> None:
        assert TOKEN.is_valid(2000.0)
        assert not TOKEN.is_valid(2000.25)
        assert replace(TOKEN, expires_at=None).is_valid(1e12)

    def test_the_last_use_is_noted(self, store: SqlStore) -> None:
        add_token(store, TOKEN)
        mark_used(store, TOKEN.id, 1234.5)
        assert find_token(store, TOKEN.id) == replace(TOKEN, last_used_at=1234.5)

    def test_the_audit_keeps_whatever_is_in_its_texts(self, store: SqlStore) -> None:
        detail = {"text": "\0 \ud800 ü", "number": 1.5, "list": [None, {"a": 1}]}
        for number in range(3):
            add_entry(
                store,
                token_id=None,
                action="test.change",
                subject=f"{number} \0 \ud800 ü",
                detail=detail,
                client="x" * 300,
            )
        newest, middle, oldest = newest_entries(store, 10)
        assert [e.subject for e in (newest, oldest)] == ["2 \ufffd \ufffd ü", "0 \ufffd \ufffd ü"]
        assert newest.detail == detail
        assert newest.client == "x" * 100
        assert newest_entries(store, 1, before=newest.number) == [middle]
        assert prune_entries(store, newest.at + 1) == 3
        assert newest_entries(store, 10) == []

    def test_what_a_user_asked_for_is_counted(self, store: SqlStore) -> None:
        job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission(user="ann"))
        token = store.claim(job.id)
        store.commit(job.id, token, finished=[failed(0)])
        budget = spec().budget.trials
        assert trials_asked_for(store, "ann", 0.0) == [(job.created_at, budget or 1)]
        assert trials_asked_for(store, "ann", time.time() + 60) == []
        assert trials_asked_for(store, "bob", 0.0) == []
        assert bytes_uploaded(store, "ann", 0.0) == []
