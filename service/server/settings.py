"""What a service is started with.

Whom to believe about where a request comes from.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network

from tuner.errors import UserError

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8100


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections a service keeps, and how slow their clients may be.

    Fewer than ``most`` are kept where the process may open few files. ``each`` is the limit of one
    address (a /64 network of IPv6); a proxy is one address.
    """

    most: int = 512
    each: int = 256
    head_s: float = 10.0
    """From the connection, or the first byte of a further request, to the end of its head."""
    body_grace_s: float = 10.0
    body_bytes_per_s: int = 16 << 10
    """How fast a body must be on the whole, after the grace."""
    stalled_answer_s: float = 60.0
    """How long a client may take nothing of its answer."""
    keep_alive_s: float = 5.0


@dataclass(frozen=True)
class Settings:
    """How one service runs.

    ``database_url`` as in :func:`db.open_store` (``None``: the default place). ``conductors`` is
    the number of processes that run jobs; 0 leaves that to conductors elsewhere on the same
    database. ``slots`` is how many jobs each of them runs at once, ``workers`` how many
    candidates of one job are in flight where a job does not say it.
    """

    database_url: str | None = None
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    conductors: int = 1
    slots: int = 1
    workers: int | None = None
    upload_limit_bytes: int = 16 << 20
    """The largest pipeline that may be uploaded; other requests are held to 1 MiB."""
    import_limit_bytes: int = 1 << 30
    """The largest file of schedules that may be imported; it is kept on disk while it is read."""
    lookup_processes: int = 1
    """Processes that answer misses and batches of the best-query; 0: a thread does."""
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    tls_certificate: str | None = None
    tls_key: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose members may say, by ``X-Forwarded-For`` and ``X-Forwarded-Proto``, where a
    request comes from and whether by TLS; nobody else is believed."""
    webhook_allow: tuple[str, ...] = ()
    """Networks (CIDR) that webhooks may lead to beside what everybody can reach."""
    pages: str = "dashboards"
    """The module whose ``install(app)`` adds pages for people; empty for none. By name, because
    pages know the service and not the other way round."""

    @property
    def upload_limits(self) -> dict[str, int]:
        """How large bodies may be, by path."""
        return {"/v1/pipelines": self.upload_limit_bytes, "/v1/import": self.import_limit_bytes}

    @property
    def url(self) -> str:
        """Where clients on this machine reach it."""
        scheme = "https" if self.tls_certificate else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"


def default_server() -> str | None:
    """The service that commands talk to instead of this machine: ``HVXTUNE_SERVER``, if set."""
    return os.environ.get("HVXTUNE_SERVER") or None


TRUSTED_PROXIES_VARIABLE = "HVXTUNE_TRUSTED_PROXIES"
_MAPPED = "::ffff:"
_MAPPED_BITS = 96


def read_trusted(texts: Iterable[str]) -> tuple[str, ...]:
    """The networks that ``texts`` name: addresses, or networks as ``10.0.0.0/8``, several with
    commas between. ``UserError`` for anything else, for names too: who answers for a name can be
    changed from outside."""
    found: list[str] = []
    for text in texts:
        for one in filter(None, (part.strip() for part in text.split(","))):
            found.extend(_forms(_network(one)))
    return tuple(dict.fromkeys(found))


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise UserError(
            f"--trusted-proxy '{text[:80]}': {error}",
            accepted="an address or a network, such as 127.0.0.1, 10.0.0.0/8 or fd00::/8",
            next_step="name the addresses that your proxy connects from",
        ) from None


def _forms(network: IPv4Network | IPv6Network) -> list[str]:
    """As its members are seen: a socket for both kinds shows IPv4 addresses within IPv6."""
    if isinstance(network, IPv6Network):
        return [str(network)]
    mapped = f"{_MAPPED}{network.network_address}/{_MAPPED_BITS + network.prefixlen}"
    return [str(network), mapped]
