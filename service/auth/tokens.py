"""Tokens: how they are made, limited and shown."""

from __future__ import annotations

import getpass
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from service.auth.caller import Quotas, Reads, Scope
from service.token_text import TokenText, new_token_text
from tuner.errors import InternalError, UserError

if TYPE_CHECKING:
    from db.access.tokens import Token
    from db.audience import Viewer
    from db.sql_store import SqlStore

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}"
"""Of the users that tokens are for."""

DEFAULT_EXPIRES = "365d"
MOST_QUOTA = 1 << 62

_NAMES = "1 to 100 letters, digits and . _ @ + -, such as ci or ann@lab"
_SPAN = re.compile(r"([0-9]{1,6})([mhdw])")
_UNIT_S = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def local_user() -> str:
    """The login name of this process's user, if it will do for a token; else ``admin``."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = ""
    return name if re.fullmatch(NAME_PATTERN, name) else "admin"


def local_viewer() -> Viewer:
    """The user of a command on the service's machine, from whom the database hides nothing."""
    from db.audience import Viewer

    return Viewer(local_user(), sees_all=True)


def issue(
    store: SqlStore,
    *,
    name: str,
    scopes: Sequence[Scope],
    quotas: Quotas,
    expires_at: float | None,
    owner: str | None = None,
    reads: Reads = Reads.OWN,
) -> tuple[TokenText, Token]:
    """Stores a new token; only here is its text known. ``UserError`` if it would be useless."""
    from db.access.tokens import add_token

    _require_useful(name, expires_at)
    whose = name if owner is None else owner
    if not re.fullmatch(NAME_PATTERN, whose):
        raise UserError(f"the owner {whose[:120]!r} of a token", accepted=_NAMES)
    for _ in range(5):
        text, token = prepare(name=name, scopes=scopes, quotas=quotas, expires_at=expires_at)
        token = replace(token, owner=whose, reads=reads.value)
        if add_token(store, token):
            return text, token
    raise InternalError("random ids of tokens repeat", next_step="check the machine's randomness")


def prepare(
    *, name: str, scopes: Sequence[Scope], quotas: Quotas, expires_at: float | None
) -> tuple[TokenText, Token]:
    """A new token that is not stored yet."""
    from db.access.tokens import Token

    text = new_token_text()
    limits = {key: value for key, value in quotas.as_dict().items() if value is not None}
    token = Token(
        id=text.id,
        name=name,
        secret_digest=text.digest,
        scopes=[scope.value for scope in Scope if scope in scopes],
        quotas=limits,
        created_at=time.time(),
        expires_at=expires_at,
    )
    return text, token


def _require_useful(name: str, expires_at: float | None) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise UserError(f"the name {name[:120]!r} of a token", accepted=_NAMES)
    if expires_at is not None and expires_at <= time.time():
        raise UserError(
            f"the token would have expired on {date_text(expires_at)}",
            accepted="a time in the future",
        )


def read_expiry(text: str) -> float | None:
    """When a token that is made now expires: ``90d``, ``2027-01-31`` or ``never``."""
    if text == "never":
        return None
    span = _SPAN.fullmatch(text)
    if span:
        return time.time() + int(span[1]) * _UNIT_S[span[2]]
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UserError(
            f"a token cannot expire at '{text[:40]}'",
            accepted="a span such as 12h, 90d or 52w; a date such as 2027-01-31 (UTC); never",
        ) from None


def date_text(at: float) -> str:
    """A time for people."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def token_json(token: Token) -> dict[str, Any]:
    """A token as commands and routes show it: without its secret."""
    now = time.time()
    state = "revoked" if token.revoked_at is not None else "valid"
    if state == "valid" and not token.is_valid(now):
        state = "expired"
    return {
        "id": token.id,
        "name": token.name,
        "owner": token.owner,
        "state": state,
        "scopes": list(token.scopes),
        "read": token.reads,
        "quotas": Quotas.from_dict(token.quotas).as_dict(),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "last_used_at": token.last_used_at,
    }


def issued_json(text: TokenText, token: Token) -> dict[str, Any]:
    """A token that was just made, with its secret: shown this once."""
    return {"token": text.text, **token_json(token)}


def issue_detail(token: Token) -> dict[str, Any]:
    """The audit's record of a new token."""
    return {
        "name": token.name,
        "owner": token.owner,
        "scopes": list(token.scopes),
        "read": token.reads,
        "quotas": dict(token.quotas),
    }
