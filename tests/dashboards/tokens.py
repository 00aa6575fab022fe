"""Tokens for tests."""

from __future__ import annotations

import time
from collections.abc import Iterable

from db.access.tokens import Token, add_token
from db.sql_store import SqlStore
from service.auth.caller import Scope
from service.token_text import TokenText, new_token_text


def make_token(store: SqlStore, name: str, scopes: Iterable[Scope]) -> TokenText:
    """A new token of ``name``, stored."""
    text = new_token_text()
    words = tuple(scope.value for scope in scopes)
    assert add_token(store, Token(text.id, name, text.digest, words, created_at=time.time()))
    return text
