"""Who may do what: bearer tokens with scopes and quotas.

Nothing but the paths in ``service.auth.guard`` is answered without a token, and every route names
the scope it needs by :func:`require`; a test fails for one that does not. Routes that change
something say so by :func:`service.auth.audit.record`. Importing this package is cheap: clients
and commands use parts of it.
"""

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
