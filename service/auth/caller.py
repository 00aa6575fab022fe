"""The sender of a request: what their token says about them, and the address they send from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from db.audience import Viewer

_IPV6_NETWORK_BITS = 64
"""The network that one customer gets: all addresses in it count as one."""


class Scope(StrEnum):
    """A permission of a token. Each is granted separately; ``admin`` includes all."""

    READ = "read"
    """Read what is shared and what the token's owner has, or everything: :class:`Reads`."""
    SUBMIT = "submit"
    """Submit jobs and pipelines; cancel, pause and resume your own."""
    OPERATE = "operate"
    """Cancel, pause and resume anybody's jobs; drain and quarantine devices and schedules."""
    ADMIN = "admin"
    """Tokens, import, and all of the above."""


class Reads(StrEnum):
    """How far ``read`` reaches."""

    OWN = "own"
    """Whatever belongs to the token's owner or is shared."""
    ALL = "all"
    """Also what others keep private."""


@dataclass(frozen=True)
class Quotas:
    """The limits of a token; ``None`` means no limit.

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
        """Reads :meth:`as_dict`. Unknown names are left out, so that an older service can read
        what a newer one stored."""
        return Quotas(**{name: stored.get(name) for name in Quotas.__dataclass_fields__})


@dataclass(frozen=True)
class Caller:
    """The sender of a request. ``name`` is the user that submits jobs, ``owner`` the owner of those
    jobs: by default the user."""

    token_id: str
    name: str
    scopes: frozenset[Scope] = field(default_factory=frozenset)
    quotas: Quotas = field(default_factory=Quotas)
    owner: str = ""
    reads: Reads = Reads.OWN

    def __post_init__(self) -> None:
        object.__setattr__(self, "owner", self.owner or self.name)

    def may(self, scope: Scope) -> bool:
        """Whether the token has ``scope``."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    @property
    def sees_all(self) -> bool:
        """Whether nothing is hidden: who may act on everybody's jobs must see them."""
        return self.reads is Reads.ALL or self.may(Scope.OPERATE)

    @property
    def viewer(self) -> Viewer:
        """The caller as one who asks for things by name."""
        from db.audience import Viewer  # late: commands do without a database

        return Viewer(self.owner, self.sees_all)


def caller_of(scope: Mapping[str, Any]) -> Caller | None:
    """The caller that the guard, or the session of a page, found for the request with this ASGI
    ``scope``; ``None`` on open paths and without a guard."""
    found: Caller | None = scope.get("state", {}).get("caller")
    return found


def client_of(connection: HTTPConnection) -> str:
    """The address a request came from."""
    return connection.client.host if connection.client else "unknown"


def network_of(client: str) -> str:
    """The key under which the address ``client`` is counted."""
    try:
        address = ip_address(client)
    except ValueError:
        return client
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return f"{address.packed[: _IPV6_NETWORK_BITS // 8].hex(':', 2)}::/{_IPV6_NETWORK_BITS}"
    return str(address)
