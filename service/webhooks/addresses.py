"""Where the service may connect on behalf of a caller: to no machine that only it can reach.

Addresses are checked after the name was looked up, and the connection goes to the very address
that was checked, so a name that changes a moment later (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv6Address,
    ip_address,
    ip_network,
)
from urllib.parse import SplitResult, urlsplit, urlunsplit

from service.schemas.webhooks import MOST_URL
from service.settings import Network
from tuner.errors import UserError

_ACCEPTED = "https://HOST/PATH of a public host"
_NEXT_STEP = "the operator can allow networks: hvxtune serve --webhook-allow CIDR"
_TRANSLATING = tuple(ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16"))
"""IPv6 networks whose addresses mean IPv4 ones, private ones too (RFC 6052, 8215, 3056)."""

Address = IPv4Address | IPv6Address


class RefusedError(UserError):
    """The service does not connect there."""


@dataclass(frozen=True)
class Pinned:
    """Where to connect: ``url`` names an address, ``host`` is the ``Host`` to ask for there."""

    url: str
    host: str
    name: str


def check_url(url: str, allowed: Sequence[Network]) -> SplitResult:
    """Refuses what is wrong without looking a name up: ``RefusedError``."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise _refused("an address that cannot be read") from None
    if not host or parts.scheme not in ("https", "http") or not url.isascii():
        raise _refused("an address of another form")
    if len(url) > MOST_URL or not url.isprintable() or " " in url or parts.fragment:
        raise _refused("an address of another form")
    if parts.username is not None or parts.password is not None:
        raise _refused("an address with a name and a password")
    literal = _literal(host)
    if literal is not None:
        _require(literal, allowed, parts.scheme)
    elif parts.scheme == "http" and not any(net.is_loopback for net in allowed):
        raise _refused("an address without TLS")
    return parts


async def pin(url: str, allowed: Sequence[Network]) -> Pinned:
    """Looks the name up and checks every address it has; ``RefusedError``, ``OSError``."""
    parts = check_url(url, allowed)
    host = parts.hostname or ""
    port = parts.port or {"https": 443, "http": 80}[parts.scheme]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if not addresses:
        raise OSError("the name has no address")
    for address in addresses:
        _require(address, allowed, parts.scheme)
    first = addresses[0]
    place = f"[{first}]" if first.version == 6 else str(first)
    pinned = urlunsplit((parts.scheme, f"{place}:{port}", parts.path or "/", parts.query, ""))
    return Pinned(pinned, parts.netloc, host)


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _require(address: Address, allowed: Sequence[Network], scheme: str) -> None:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    named = any(address in network for network in allowed)
    if scheme == "http" and not (named and address.is_loopback):
        raise _refused("an address without TLS")
    translated = any(address in network for network in _TRANSLATING)
    public = address.is_global and not address.is_multicast and not translated
    if not public and not named:
        raise _refused("a private, local or reserved address")


def _refused(what: str) -> RefusedError:
    # Not which: names that only this machine can look up are none of the caller's business.
    return RefusedError(f"the webhook leads to {what}", accepted=_ACCEPTED, next_step=_NEXT_STEP)
