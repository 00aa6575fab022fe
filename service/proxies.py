"""Whom to believe about where a request comes from."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from tuner.errors import UserError

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
