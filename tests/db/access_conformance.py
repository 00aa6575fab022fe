"""What tokens and the audit promise on every database."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import update

from db import open_store
from db.access.audit import add_entry, amend_entry, newest_entries, prune_entries
from db.access.tokens import (
    Token,
    add_token,
    all_tokens,
    find_token,
    mark_used,
    revoke_token,
)
from db.access.usage import trials_asked_for
from db.service_models import TokenRow
from db.sql_store import SqlStore
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.errors import UserError
from tuner.records.trial import Submission

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

    def test_a_token_is_revoked_once(self, store: SqlStore) -> None:
        add_token(store, TOKEN)
        first = revoke_token(store, TOKEN.id)
        assert first.revoked_at == pytest.approx(time.time(), abs=60)
        assert revoke_token(store, TOKEN.id) == first
        assert find_token(store, TOKEN.id) == first
        assert not first.is_valid(1500.0)
        with pytest.raises(UserError, match="'zzzzzzzz'"):
            revoke_token(store, "zzzzzzzz")

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

    def test_an_entry_can_be_amended(self, store: SqlStore) -> None:
        about = {"token_id": None, "subject": "", "client": "here"}
        first = add_entry(store, action="a", detail={"n": 1}, **about)  # type: ignore[arg-type]
        add_entry(store, action="b", detail={"n": 1}, **about)  # type: ignore[arg-type]
        amend_entry(store, first, {"n": 2})
        found = [(entry.action, dict(entry.detail)) for entry in newest_entries(store, 10)]
        assert found == [("b", {"n": 1}), ("a", {"n": 2})]

    def test_several_writes_are_one_transaction(self, store: SqlStore) -> None:
        def fail_half_way() -> None:
            with store.transaction():
                add_token(store, TOKEN)
                assert find_token(store, TOKEN.id) == TOKEN  # what is read within knows it
                with ThreadPoolExecutor() as others:
                    assert others.submit(find_token, store, TOKEN.id).result() is None
                raise UserError("something else is wrong")

        with pytest.raises(UserError):
            fail_half_way()
        assert all_tokens(store) == []
        with store.transaction():
            add_token(store, TOKEN)
            with store.transaction():
                mark_used(store, TOKEN.id, 1.0)
        assert find_token(store, TOKEN.id) == replace(TOKEN, last_used_at=1.0)

    def test_a_part_of_a_transaction_that_failed_leaves_the_rest(self, store: SqlStore) -> None:
        def fail() -> None:
            with store.writing() as session:
                session.execute(update(TokenRow).values(name="other"))
                raise UserError("something else is wrong")

        with store.transaction():
            add_token(store, TOKEN)
            with pytest.raises(UserError):
                fail()
            mark_used(store, TOKEN.id, 1.0)
        assert find_token(store, TOKEN.id) == replace(TOKEN, last_used_at=1.0)

    def test_who_decides_by_what_was_used_sees_all_of_it(self, store: SqlStore) -> None:
        """Two processes, each with threads, take on a job only while there are less than three."""
        url = store._engine.url.render_as_string(hide_password=False)
        budget = spec().budget.trials or 0

        def take(of: SqlStore) -> bool:
            with of.transaction():
                if len(trials_asked_for(of, "ann", 0.0)) >= 3:
                    return False
                of.create_job(spec(), SPACE, TOOLCHAIN, Submission(user="ann"))
                return True

        with closing(open_store(url)) as other, ThreadPoolExecutor(8) as pool:
            taken = list(pool.map(take, [store, other] * 8))
        assert sum(taken) == 3
        assert sum(amount for _, amount in trials_asked_for(store, "ann", 0.0)) == 3 * budget
