"""Addresses of this machine: who can reach them, and which one leads where."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from tuner.errors import UserError


def is_loopback(host: str) -> bool:
    """Whether what listens on ``host``, an address or a name, can be reached from this machine
    only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(ip_address(str(one[4][0])).is_loopback for one in found)


def in_url(host: str) -> str:
    """``host`` as it stands before a port: an address of IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def address_towards(host: str, port: int) -> str:
    """The address of this machine by which it reaches ``host``. Sends nothing. ``UserError`` if
    there is no such host, or no way to it."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as way:
            way.connect(place)
            return str(way.getsockname()[0])
    except (OSError, UnicodeError) as error:
        raise UserError(
            f"'{host}' cannot be reached: {getattr(error, 'strerror', None) or error}",
            accepted="an address or a name that this machine has a route to",
            next_step=f"try: ping {host}",
        ) from None
