"""Who may do what: bearer tokens with scopes and quotas.

Every route but health names the scope it needs by :func:`require`; a test fails for one that
does not.
"""

from __future__ import annotations

from service.auth.caller import Caller, Scope, require

__all__ = ["Caller", "Scope", "require"]
