"""Settings of a service: its limits, the networks it trusts, and where clients find it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network

from tuner.errors import UserError
from tuner.machine.addresses import in_url

TRUSTED_PROXIES_VARIABLE = "HVXTUNE_TRUSTED_PROXIES"
_MAPPED = "::ffff:"
_MAPPED_BITS = 96

UPLOADS = (
    *("/v1/pipelines", "/v1/packages"),
    *("/ui/kernels/pipeline", "/ui/kernels/package", "/ui/kernels/model"),
)
"""Paths of uploads: of routes, and of forms of pages."""

Network = IPv4Network | IPv6Network

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8100


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections a service keeps, and how slow clients may be.

    Fewer than ``most`` are kept where the process may open few files. ``each`` is the limit of one
    address (a /64 network of IPv6); a proxy is one address.
    """

    most: int = 512
    each: int = 256
    head_s: float = 10.0
    """From the connection, or the first byte of a further request, to the end of its head."""
    body_grace_s: float = 10.0
    body_bytes_per_s: int = 16 << 10
    """The least average speed of a body, after the grace."""
    stalled_answer_s: float = 60.0
    """How long a client may read nothing of its answer."""
    keep_alive_s: float = 5.0


@dataclass(frozen=True)
class Settings:
    """How a service runs.

    ``database_url`` and ``artifacts`` as in :func:`db.open_store` (``None``: the default place).
    ``conductors`` is
    the number of processes that run jobs; 0 leaves that to conductors elsewhere on the same
    database. ``slots`` is how many jobs each of them runs at once, ``workers`` how many
    candidates of one job are in flight unless the job says so.
    """

    database_url: str | None = None
    artifacts: str | None = None
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    conductors: int = 1
    slots: int = 1
    workers: int | None = None
    upload_limit_bytes: int = 16 << 20
    """The largest pipeline, package or model that may be uploaded; other requests are held to 1
    MiB."""
    import_limit_bytes: int = 1 << 30
    """The largest file of schedules that may be imported; it is kept on disk while it is read."""
    lookup_processes: int = 1
    """Processes that answer misses and batches of the best-query; with 0, a thread does."""
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    tls_certificate: str | None = None
    tls_key: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose members may say, by ``X-Forwarded-For`` and ``X-Forwarded-Proto``, where a
    request comes from and whether by TLS; nobody else is believed."""
    root_path: str = ""
    """Where a proxy publishes the service, such as ``/hvx``: it takes that off the requests it
    forwards, and addresses in answers begin with it."""
    pages: str = "dashboards"
    """The module whose ``install(app)`` adds pages for people; empty for none. By name, because
    pages know the service and not the other way round."""

    @property
    def upload_limits(self) -> dict[str, int]:
        """How large bodies may be, by path."""
        uploads = dict.fromkeys(UPLOADS, self.upload_limit_bytes)
        return {**uploads, "/v1/import": self.import_limit_bytes}

    @property
    def url(self) -> str:
        """Where clients on this machine reach it."""
        scheme = "https" if self.tls_certificate else "http"
        return f"{scheme}://{in_url(self.host)}:{self.port}"


def default_server() -> str | None:
    """The service that commands talk to instead of this machine: ``HVXTUNE_SERVER``, if set."""
    return os.environ.get("HVXTUNE_SERVER") or None


def read_trusted(texts: Iterable[str]) -> tuple[str, ...]:
    """The networks of ``--trusted-proxy``, in each form in which a socket shows their members: one
    for both kinds shows IPv4 addresses within IPv6."""
    found: list[str] = []
    for network in _networks("--trusted-proxy", texts):
        found.append(str(network))
        if isinstance(network, IPv4Network):
            found.append(f"{_MAPPED}{network.network_address}/{_MAPPED_BITS + network.prefixlen}")
    return tuple(found)


def _networks(option: str, texts: Iterable[str]) -> tuple[Network, ...]:
    """The networks that ``texts`` name for ``option``: addresses, or networks as ``10.0.0.0/8``,
    several with commas between. ``UserError`` for anything else, names included: others control
    what a name leads to."""
    found = []
    for one in filter(None, (part.strip() for text in texts for part in text.split(","))):
        try:
            found.append(ip_network(one))
        except ValueError as error:
            raise UserError(
                f"{option} '{one[:80]}': {error}",
                accepted="an address or a network, such as 127.0.0.1, 10.0.0.0/8 or fd00::/8",
            ) from None
    return tuple(dict.fromkeys(found))
