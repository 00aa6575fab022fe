"""The gate of a service: finds the caller of a request by bearer token.

A token is remembered as it was read. For a second it counts as current; then one request reads it
again while others keep using it, for another second at most. So a token revoked by another process
is refused within two seconds, and a request costs no query.
"""

from __future__ import annotations

import hmac
import logging
import threading
import time
from dataclasses import replace
from typing import NoReturn

from starlette.requests import HTTPConnection

from db.access.tokens import Token, find_token, mark_used
from db.sql_store import SqlStore
from service.auth.audit import Refusals
from service.auth.caller import Caller, Quotas, Reads, Scope, client_of, network_of
from service.auth.quotas import Rate
from service.auth.tokens import date_text
from service.http_errors import HttpError
from service.token_text import TokenText, holds_token, parse, redact
from tuner.errors import HvxtuneError

FRESH_S = 1.0
FAILURES_PER_MINUTE = 30
"""Of one address: stops a misconfigured script, and anyone who guesses tokens."""
MARK_USED_EVERY_S = 60.0
MOST_REMEMBERED = 4096

_BEARER = b"bearer "
_NO_DIGEST = "0" * 64
_ASK_FOR_ONE = "ask the owner of the service for a new one: hvxtune token create"

_log = logging.getLogger("hvxtune.service")


class _Known:
    """A token of the database, as it was at ``read_at`` (monotonic)."""

    __slots__ = ("caller", "is_being_read", "rate", "read_at", "token")

    def __init__(self, token: Token, rate: Rate | None) -> None:
        self.token = token
        self.caller = Caller(
            token.id,
            token.name,
            frozenset(scope for scope in Scope if scope.value in token.scopes),
            Quotas.from_dict(token.quotas),
            token.owner,
            Reads.ALL if token.reads == Reads.ALL else Reads.OWN,
        )
        self.rate = rate
        self.read_at = time.monotonic()
        self.is_being_read = False


class Gate:
    """Tells callers by the tokens in ``store``. ``app.state.gate``; safe from several threads."""

    def __init__(self, store: SqlStore, failures_per_minute: int = FAILURES_PER_MINUTE) -> None:
        self._store = store
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self._failures = Rate("failed-authentications", failures_per_minute)
        self._refusals = Refusals(store)

    def caller_at_hand(self, connection: HTTPConnection) -> Caller | None:
        """The caller if that can be told without waiting for the database, else ``None``: then ask
        :meth:`caller`. ``HttpError`` 429 beyond the token's rate."""
        if b"hvx_" in connection.scope["query_string"]:
            return None
        text = _bearer(connection)
        given = None if text is None else parse(text)
        known = None if given is None else self._known.get(given.id)
        if given is None or known is None or self._should_be_read(known):
            return None
        if not hmac.compare_digest(known.token.secret_digest, given.digest):
            return None
        if not known.token.is_valid(time.time()):
            return None
        return _within_rate(known)

    def caller(self, connection: HTTPConnection) -> Caller:
        """The caller; ``HttpError`` 401 without a valid token, 429 beyond its rate. Blocks."""
        given = self._given(connection)
        known = self._known.get(given.id)
        if known is None and not self._failures.test(network_of(client_of(connection))):
            self._refuse_all(connection)
        token = known.token if known else find_token(self._store, given.id)
        stored_digest = token.secret_digest if token else _NO_DIGEST
        if not hmac.compare_digest(stored_digest, given.digest) or token is None:
            self._refuse(
                connection,
                "unknown",
                "this service does not know the token",
                next_step=f"check that it is whole and of this service, or {_ASK_FOR_ONE}",
            )
        known = self._read_again(known) if known else self._remember(token)
        self._require_valid(connection, known.token)
        self._mark_used(known)
        return _within_rate(known)

    def holder(self, token_id: str) -> Caller:
        """The caller who began a browser session with the token ``token_id``; ``HttpError`` 401 if
        the token has ended since. Its rate does not apply, as pages poll. Blocks."""
        known = self._known.get(token_id)
        if known is None:
            token = find_token(self._store, token_id)
            known = None if token is None else self._remember(token)
        elif self._should_be_read(known):
            known = self._read_again(known)
        if known is None or not known.token.is_valid(time.time()):
            raise HttpError(401, "the token of this session has ended", next_step=_ASK_FOR_ONE)
        return known.caller

    def charge(self, caller: Caller, requests: int) -> None:
        """Counts the request as ``requests`` more; ``HttpError`` 429 if that exceeds the rate."""
        known = self._known.get(caller.token_id)
        rate = None if known is None else known.rate
        if known is None or rate is None or requests <= 0:
            return
        if requests >= rate.per_minute:
            raise HttpError(
                422,
                f"a request that counts as {requests + 1} is more than the token "
                f"'{caller.name}' may send in a minute",
                accepted=f"one that counts as at most {rate.per_minute}",
                next_step="ask for fewer workloads at once, or without allow_nearest",
                quota="requests_per_minute",
            )
        _within_rate(known, requests)

    def note_refusal(self, connection: HTTPConnection, caller: Caller, reason: str) -> None:
        """Records in the audit that a valid token was not enough. Blocks."""
        path = redact(connection.url.path)
        self._refusals.note(client_of(connection), path, caller.token_id, reason)

    def forget(self, token_id: str) -> None:
        """The token was changed: it is read again at its next use."""
        with self._lock:
            self._known.pop(token_id, None)

    def _should_be_read(self, known: _Known) -> bool:
        """Whether the current request should read the token again. One does while others keep
        using what is known, unless that has become too old."""
        age_s = time.monotonic() - known.read_at
        if age_s < FRESH_S:
            return False
        if known.is_being_read and age_s < 2 * FRESH_S:
            return False
        known.is_being_read = True
        return True

    def _read_again(self, known: _Known) -> _Known:
        try:
            if time.monotonic() - known.read_at < FRESH_S:
                return known
            token = find_token(self._store, known.token.id)
        finally:
            known.is_being_read = False
        # Rows of tokens are not deleted; should somebody do it by hand, it is revoked.
        return self._remember(token or replace(known.token, revoked_at=time.time()))

    def _remember(self, token: Token) -> _Known:
        with self._lock:
            before = self._known.get(token.id)
            per_minute = Quotas.from_dict(token.quotas).requests_per_minute
            rate = before.rate if before else None
            if per_minute is None:
                rate = None
            elif rate is None or rate.per_minute != per_minute:
                rate = Rate("requests", per_minute)
            known = _Known(token, rate)
            self._known[token.id] = known
            if len(self._known) > MOST_REMEMBERED:
                del self._known[next(iter(self._known))]
            return known

    def _mark_used(self, known: _Known) -> None:
        now = time.time()
        before = known.token.last_used_at
        if before is not None and 0 <= now - before < MARK_USED_EVERY_S:
            return
        known.token = replace(known.token, last_used_at=now)
        try:
            mark_used(self._store, known.token.id, now)
        except HvxtuneError as error:  # a full disk must not keep readers out
            _log.warning("the last use of token %s is not noted: %s", known.token.id, error)

    def _given(self, connection: HTTPConnection) -> TokenText:
        """The token of a request, in parts; refuses a request with none, or one in its address."""
        query = connection.scope["query_string"].decode("latin-1")
        if holds_token(query):
            self._refuse(
                connection,
                "in the address",
                "there is a token in the address, where logs and histories keep it",
                next_step="revoke it (hvxtune token revoke ID), and send a new one as"
                " Authorization: Bearer hvx_...",
            )
        text = _bearer(connection)
        if text is None:
            self._refuse(
                connection,
                "missing",
                "the request has no token",
                next_step="send it as Authorization: Bearer hvx_...; the owner of the service"
                " makes one: hvxtune token create",
                error="",
                is_guess=False,
            )
        given = parse(text)
        if given is None:
            self._refuse(
                connection,
                "malformed",
                "what was sent is not a token",
                next_step=f"check that it is whole, or {_ASK_FOR_ONE}",
                error="invalid_request",
            )
        return given

    def _require_valid(self, connection: HTTPConnection, token: Token) -> None:
        now = time.time()
        if token.is_valid(now):
            return
        if token.revoked_at is not None:
            reason, what = "revoked", f"was revoked on {date_text(token.revoked_at)}"
        else:
            reason, what = "expired", f"expired on {date_text(token.expires_at or now)}"
        self._refuse(
            connection,
            reason,
            f"the token {token.id} of '{token.name}' {what}",
            next_step=_ASK_FOR_ONE,
            token_id=token.id,
            is_guess=False,
        )

    def _refuse(
        self,
        connection: HTTPConnection,
        reason: str,
        message: str,
        *,
        next_step: str,
        error: str = "invalid_token",
        token_id: str | None = None,
        is_guess: bool = True,
    ) -> NoReturn:
        client = client_of(connection)
        self._refusals.note(client, redact(connection.url.path), token_id, reason)
        if is_guess and not self._failures.hit(network_of(client)):
            self._refuse_all(connection)
        challenge = 'Bearer realm="hvxtune"' + (f', error="{error}"' if error else "")
        raise HttpError(
            401,
            message,
            accepted="Authorization: Bearer hvx_ID_SECRET",
            next_step=next_step,
            headers={"WWW-Authenticate": challenge},
        )

    def _refuse_all(self, connection: HTTPConnection) -> NoReturn:
        client = client_of(connection)
        raise HttpError(
            429,
            f"too many failed authentications from {client}",
            accepted=f"{self._failures.per_minute} a minute; tokens in use are let in",
            next_step="wait, and find what keeps sending a wrong token",
            headers=self._failures.headers(network_of(client)),
        )


def _within_rate(known: _Known, requests: int = 1) -> Caller:
    rate, caller = known.rate, known.caller
    if rate is not None and not rate.hit(caller.token_id, requests):
        raise HttpError(
            429,
            f"the token '{caller.name}' sends more than {rate.per_minute} requests a minute",
            accepted=f"at most {rate.per_minute} a minute",
            next_step="wait, or ask the owner of the service for a larger quota",
            headers=rate.headers(caller.token_id),
            quota="requests_per_minute",
        )
    return caller


def _bearer(connection: HTTPConnection) -> str | None:
    """The text after ``Bearer`` in the only ``Authorization``; ``None`` without that header. Two of
    them, or another scheme, give text that is not a token."""
    found: bytes | None = None
    for name, value in connection.scope["headers"]:
        if name == b"authorization":
            found = value if found is None else found + b", " + value
    if found is None:
        return None
    if found[: len(_BEARER)].lower() != _BEARER:
        return ""
    return found[len(_BEARER) :].strip(b" ").decode("latin-1")
