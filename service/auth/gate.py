"""Finds the caller of a request."""

from __future__ import annotations

from typing import Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from service.auth.caller import Caller, Scope


class Gate(Protocol):
    """Tells who sends a request. ``app.state.gate``; safe from several threads."""

    def caller_at_hand(self, connection: HTTPConnection) -> Caller | None:
        """The caller if that can be told without waiting for the database, else ``None``: then
        :meth:`caller` tells, or says why not. ``HttpError`` 429 beyond the token's rate."""
        ...

    def caller(self, connection: HTTPConnection) -> Caller:
        """The caller; ``HttpError`` 401 without a valid token, 429 beyond its rate. Blocks."""
        ...

    def holder(self, token_id: str) -> Caller:
        """Who showed the token ``token_id`` before, when their session in a browser began;
        ``HttpError`` 401 if it has ended since. Its rate does not apply: pages poll. Blocks."""
        ...

    def charge(self, caller: Caller, requests: int) -> None:
        """Counts a request as so many more; ``HttpError`` 429 if that is beyond the rate."""
        ...

    def note_refusal(self, connection: HTTPConnection, caller: Caller, reason: str) -> None:
        """Leaves in the audit that a valid token was not enough. Blocks."""
        ...

    def forget(self, token_id: str) -> None:
        """The token was changed: what is remembered of it holds no longer."""
        ...


async def find_caller(connection: HTTPConnection) -> Caller:
    """The caller of ``connection``, by the gate of its application; errors as of a gate."""
    gate: Gate = connection.app.state.gate
    found = gate.caller_at_hand(connection)
    if found is None:
        found = await run_in_threadpool(gate.caller, connection)
    return found


class OpenGate:
    """Lets everybody do everything; for tests of what lies behind the gate."""

    def caller_at_hand(self, connection: HTTPConnection) -> Caller | None:
        return Caller("test", "test", frozenset(Scope))

    def caller(self, connection: HTTPConnection) -> Caller:
        return Caller("test", "test", frozenset(Scope))

    def holder(self, token_id: str) -> Caller:
        return Caller(token_id, "test", frozenset(Scope))

    def charge(self, caller: Caller, requests: int) -> None:
        pass

    def note_refusal(self, connection: HTTPConnection, caller: Caller, reason: str) -> None:
        pass

    def forget(self, token_id: str) -> None:
        pass
