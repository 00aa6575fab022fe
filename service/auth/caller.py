"""The caller of a request, and what a route demands of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from fastapi import Request

from service.problem_details import HttpError

if TYPE_CHECKING:
    from service.auth.gate import Gate


class Scope(StrEnum):
    """What a token may be good for. Each is granted by itself; ``admin`` includes all."""

    READ = "read"
    """Look at everything."""
    SUBMIT = "submit"
    """Submit jobs and pipelines; cancel, pause and resume one's own."""
    OPERATE = "operate"
    """Cancel, pause and resume anybody's jobs; drain and quarantine devices and schedules."""
    ADMIN = "admin"
    """Tokens, import, and all of the above."""


@dataclass(frozen=True)
class Quotas:
    """What a token may use; ``None`` means no limit."""

    running_jobs: int | None = None
    trials_per_day: int | None = None
    upload_bytes_per_day: int | None = None
    requests_per_minute: int | None = None


@dataclass(frozen=True)
class Caller:
    """Who sent a request. ``name`` is the user that jobs are submitted by."""

    token_id: str
    name: str
    scopes: frozenset[Scope] = field(default_factory=frozenset)
    quotas: Quotas = field(default_factory=Quotas)

    def may(self, scope: Scope) -> bool:
        """Whether the token has ``scope``."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


def require(scope: Scope) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency that lets only callers with ``scope`` pass: 401 without a valid token, 403
    without the scope, 429 beyond the rate."""

    async def caller(request: Request) -> Caller:
        gate: Gate = request.app.state.gate
        found = gate.caller(request)
        if not found.may(scope):
            raise HttpError(
                403,
                f"the token '{found.name}' has not the scope '{scope}'",
                accepted=f"a token with {scope} or {Scope.ADMIN}",
                next_step=f"ask the owner of the service: hvxtune token create --scope {scope}",
            )
        return found

    caller.scope = scope  # type: ignore[attr-defined]  # for the test that no route lacks one
    return caller
