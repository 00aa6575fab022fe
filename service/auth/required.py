"""What a route demands of its caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from service.auth.caller import Caller, Scope
from service.auth.gate import Gate, find_caller
from service.problem_details import HttpError

Demand = Callable[[Request], Awaitable[Caller]]


def require(scope: Scope, *others: Scope) -> Demand:
    """A dependency that lets only callers with ``scope``, or one of ``others``, pass: 401 without
    a valid token, 403 without the scope, 429 beyond the rate."""

    async def caller(request: Request) -> Caller:
        # The guard has found it before the body was read; an application without one asks here.
        found: Caller | None = request.scope.get("state", {}).get("caller")
        if found is None:
            found = await find_caller(request)
        if not any(found.may(one) for one in (scope, *others)):
            gate: Gate = request.app.state.gate
            await run_in_threadpool(gate.note_refusal, request, found, f"scope {scope}")
            raise HttpError(
                403,
                f"the token '{found.name}' lacks the scope '{scope}'",
                accepted=f"a token with {' or '.join((scope, *others, Scope.ADMIN))}",
                next_step=f"ask the owner of the service: hvxtune token create --scope {scope}",
                headers={
                    "WWW-Authenticate": 'Bearer realm="hvxtune", error="insufficient_scope",'
                    f' scope="{scope}"'
                },
            )
        return found

    # For the test that no route lacks one.
    caller.scopes = (scope, *others)  # type: ignore[attr-defined]
    return caller
