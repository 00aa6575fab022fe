"""Where a service is, and what lets a client in."""

from __future__ import annotations

import os
from ipaddress import ip_address
from urllib.parse import urlsplit

from service.settings import default_server
from tuner.errors import UserError

TOKEN_VARIABLE = "HVXTUNE_TOKEN"  # noqa: S105 - its name, not its value


def find_server(given: str | None) -> str:
    """The address ``given``, or the one in ``HVXTUNE_SERVER``, without a slash at its end."""
    server = given or default_server()
    accepted = "an address such as http://127.0.0.1:8100"
    if not server:
        raise UserError(
            "no service is named", accepted=accepted, next_step="use --server or HVXTUNE_SERVER"
        )
    try:
        parts = urlsplit(server)
        known = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        known = None
    if not known or parts.query or parts.fragment or parts.username:
        raise UserError(f"'{server}' is no address of a service", accepted=accepted)
    return server.rstrip("/")


def is_loopback(server: str) -> bool:
    """Whether ``server`` is this machine."""
    host = urlsplit(server).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_token(server: str, given: str | None) -> str | None:
    """The token to send to ``server``: ``given``, the one in ``HVXTUNE_TOKEN``, or for a service
    on this machine the one it left in the state directory. None of them: no token is sent."""
    token = given or os.environ.get(TOKEN_VARIABLE)
    if token:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise UserError(
                "the token holds characters that no token has",
                accepted="hvx_ID_SECRET, as `hvxtune token create` prints it",
            )
        return token
    if not is_loopback(server):
        return None
    from service.auth.local_token import local_token

    return local_token()
