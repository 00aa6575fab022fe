"""Bearer tokens: their owners, scopes and quotas, when they expire, and when they were last used.

Only the SHA-256 of a secret is kept. The service gives scopes and quotas their meaning.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.orm import Session

from db.catalogue import insert_unless_there, rows_changed
from db.database import Database
from db.service_models import TokenRow
from tuner.errors import NotStoredError


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


def add_token(database: Database, token: Token) -> bool:
    """Stores a new token. Says whether it did: not if the id is taken."""
    with database.writing() as session:
        return insert_unless_there(session, TokenRow, _columns(token), ["id"])


def add_first_token(database: Database, token: Token) -> bool:
    """Stores ``token`` unless the database has had one, valid or not; returns whether it did.

    In one transaction that keeps other writers of SQLite out: of two services that start at once
    on a new database, one makes the first token.
    """
    with database.writing() as session:
        if session.scalar(select(TokenRow.id).limit(1)) is not None:
            return False
        session.execute(insert(TokenRow).values(**_columns(token)))
        return True


def find_token(database: Database, token_id: str) -> Token | None:
    """The token with this id, valid or not."""
    with database.reading() as session:
        row = session.get(TokenRow, token_id)
        return None if row is None else _token(row)


def all_tokens(database: Database) -> list[Token]:
    """Every token ever made, newest first."""
    newest = select(TokenRow).order_by(TokenRow.created_at.desc(), TokenRow.id)
    with database.reading() as session:
        return [_token(row) for row in session.scalars(newest)]


def revoke_token(database: Database, token_id: str) -> Token:
    """Ends a token for good, unless it has ended before; ``UserError`` for an unknown id."""
    with database.writing() as session:
        row = session.get(TokenRow, token_id, populate_existing=True, with_for_update=True)
        if row is None:
            raise NotStoredError(
                f"no token '{token_id[:40]}'",
                accepted="the id of a token: the part between hvx_ and the next _",
                next_step="`hvxtune token list` shows them",
            )
        if row.revoked_at is None:
            row.revoked_at = time.time()
        return _token(row)


def mark_used(database: Database, token_id: str, at: float) -> None:
    """Records that the token was used at ``at``."""
    with database.writing() as session:
        used = update(TokenRow).where(TokenRow.id == token_id).values(last_used_at=at)
        rows_changed(session, used)


def _columns(token: Token) -> dict[str, object]:
    columns = {one.name: getattr(token, one.name) for one in fields(Token)}
    return {**columns, "scopes": list(token.scopes), "quotas": dict(token.quotas)}


def _token(row: TokenRow) -> Token:
    columns = {one.name: getattr(row, one.name) for one in fields(Token)}
    return Token(**{**columns, "scopes": tuple(row.scopes)})


def most_at_once(session: Session, users: Collection[str], now: float) -> Mapping[str, int]:
    """How many jobs of each of ``users`` may run at once: the most that a valid token of theirs
    allows. A user with a token without this quota, or without any valid token, has no limit."""
    allowed: dict[str, list[int | None]] = {}
    for name, quotas in session.connection().execute(_VALID_TOKENS, {"now": now}):
        if name in users:
            allowed.setdefault(name, []).append(quotas.get("running_jobs"))
    return {
        name: max(limit for limit in limits if limit is not None)
        for name, limits in allowed.items()
        if None not in limits
    }


_VALID_TOKENS = select(TokenRow.name, TokenRow.quotas).where(
    TokenRow.revoked_at.is_(None),
    TokenRow.expires_at.is_(None) | (TokenRow.expires_at > bindparam("now")),
)
