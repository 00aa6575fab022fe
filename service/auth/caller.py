"""The caller of a request: what a token says about who shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum


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
    """What a token may use; ``None`` means no limit.

    ``running_jobs``, ``trials_per_day`` and ``upload_bytes_per_day`` count what the token's user
    did with any token; ``requests_per_minute`` counts the token's own.
    """

    running_jobs: int | None = None
    trials_per_day: int | None = None
    upload_bytes_per_day: int | None = None
    requests_per_minute: int | None = None

    def as_dict(self) -> dict[str, int | None]:
        """All of them by name."""
        return asdict(self)

    @staticmethod
    def from_dict(stored: Mapping[str, int | None]) -> Quotas:
        """What :meth:`as_dict` gave; names that are not known here are left out, so that an
        older service can read what a newer one stored."""
        return Quotas(**{name: stored.get(name) for name in Quotas.__dataclass_fields__})


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
