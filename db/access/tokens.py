"""Bearer tokens: who may do what, until when, and when they were used last.

Secrets never come here, only their SHA-256. What scopes and quotas mean is the service's to say.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import insert, select, update

from db.catalogue import insert_unless_there, rows_changed
from db.service_models import TokenRow
from tuner.errors import UserError

if TYPE_CHECKING:
    from db.sql_store import SqlStore


@dataclass(frozen=True)
class Token:
    """A token without its secret. Times are Unix seconds; ``None`` means never.

    ``name`` is the user that jobs are submitted by; several tokens may share it. ``owner`` is
    whose its jobs and uploads are; empty for the user's own. ``reads`` is ``own`` for what is its
    owner's or shared, ``all`` for everything.
    """

    id: str
    name: str
    secret_digest: str = field(repr=False)
    scopes: Sequence[str]
    quotas: Mapping[str, int] = field(default_factory=dict, hash=False)
    created_at: float = 0.0
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
    owner: str = ""
    reads: str = "own"

    def __post_init__(self) -> None:
        object.__setattr__(self, "owner", self.owner or self.name)

    def is_valid(self, now: float) -> bool:
        """Whether it is neither revoked nor expired at ``now``."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def add_token(store: SqlStore, token: Token) -> bool:
    """Stores a new token. Says whether it did: not if the id is taken."""
    with store.writing() as session:
        return insert_unless_there(session, TokenRow, _columns(token), ["id"])


def add_first_token(store: SqlStore, token: Token) -> bool:
    """Stores ``token`` unless there are tokens already, valid or not; says whether it did.

    In one transaction that keeps other writers of SQLite out, so that of two services that start
    at once on a new database one makes the first token.
    """
    with store.writing() as session:
        if session.scalar(select(TokenRow.id).limit(1)) is not None:
            return False
        session.execute(insert(TokenRow).values(**_columns(token)))
        return True


def find_token(store: SqlStore, token_id: str) -> Token | None:
    """The token with this id, valid or not."""
    with store.reading() as session:
        row = session.get(TokenRow, token_id)
        return None if row is None else _token(row)


def all_tokens(store: SqlStore) -> list[Token]:
    """Every token that was ever made, newest first."""
    newest = select(TokenRow).order_by(TokenRow.created_at.desc(), TokenRow.id)
    with store.reading() as session:
        return [_token(row) for row in session.scalars(newest)]


def revoke_token(store: SqlStore, token_id: str) -> Token:
    """Ends a token for good. One that was revoked before stays as it is; ``UserError`` for an
    unknown id."""
    with store.writing() as session:
        row = session.get(TokenRow, token_id, populate_existing=True, with_for_update=True)
        if row is None:
            raise UserError(
                f"no token '{token_id[:40]}'",
                accepted="the id of a token: what stands between hvx_ and the next _",
                next_step="`hvxtune token list` shows them",
            )
        if row.revoked_at is None:
            row.revoked_at = time.time()
        return _token(row)


def mark_used(store: SqlStore, token_id: str, at: float) -> None:
    """Notes that the token was used at ``at``."""
    with store.writing() as session:
        used = update(TokenRow).where(TokenRow.id == token_id).values(last_used_at=at)
        rows_changed(session, used)


def _columns(token: Token) -> dict[str, object]:
    return {
        "id": token.id,
        "name": token.name,
        "secret_digest": token.secret_digest,
        "scopes": list(token.scopes),
        "quotas": dict(token.quotas),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "last_used_at": token.last_used_at,
        "owner": token.owner,
        "reads": token.reads,
    }


def _token(row: TokenRow) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        secret_digest=row.secret_digest,
        scopes=tuple(row.scopes),
        quotas=dict(row.quotas),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
        owner=row.owner,
        reads=row.reads,
    )
