"""Finds the caller of a request by its token."""

from __future__ import annotations

from typing import Protocol

from starlette.requests import HTTPConnection

from service.auth.caller import Caller, Scope


class Gate(Protocol):
    """Tells who sends a request. ``app.state.gate``; safe from several threads."""

    def caller(self, request: HTTPConnection) -> Caller:
        """The caller; ``HttpError`` 401 without a valid token, 429 beyond its rate."""
        ...


class OpenGate:
    """Lets everybody do everything; for tests of what lies behind the gate."""

    def caller(self, request: HTTPConnection) -> Caller:
        return Caller("test", "test", frozenset(Scope))
