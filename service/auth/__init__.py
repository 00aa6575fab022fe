"""Authentication and permissions: bearer tokens with scopes and quotas.

``gate`` finds the ``caller`` by ``tokens``; ``guard`` lets nobody pass without one, except on a few
open paths, and every route names the scope it needs by :func:`require`; a test fails for one that
does not. Changes are recorded in the ``audit``. ``local_token`` is for commands on the service's
machine. Importing this package is cheap: clients and commands use parts of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.auth.caller import Caller, Quotas, Scope

if TYPE_CHECKING:
    from service.auth.guard import require

__all__ = ["Caller", "Quotas", "Scope", "require"]


def __getattr__(name: str) -> Any:
    if name == "require":
        from service.auth.guard import require

        return require
    raise AttributeError(name)
