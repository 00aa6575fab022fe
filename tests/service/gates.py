"""Gates for tests of what lies behind them: nobody needs a token."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from service.auth import Caller, Quotas, Scope
from service.auth.gate import Gate


class OpenGate(Gate):
    """Lets everybody do everything."""

    def __init__(self) -> None:
        self._person = Caller("test", "test", frozenset(Scope))

    def caller_at_hand(self, connection: HTTPConnection) -> Caller | None:
        return self.caller(connection)

    def caller(self, connection: HTTPConnection) -> Caller:
        return self._person

    def holder(self, token_id: str) -> Caller:
        return Caller(token_id, "test", frozenset(Scope))

    def charge(self, caller: Caller, requests: int) -> None:
        pass

    def note_refusal(self, connection: HTTPConnection, caller: Caller, reason: str) -> None:
        pass

    def forget(self, token_id: str) -> None:
        pass


class CallerGate(OpenGate):
    """Everybody is one person, with these scopes."""

    def __init__(self, name: str, *scopes: Scope, quotas: Quotas | None = None) -> None:
        self._person = Caller(f"id-{name}", name, frozenset(scopes), quotas or Quotas())
