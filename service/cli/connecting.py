"""The one interface that commands speak to: the service that is named, or the same application in
this process."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from service.cli.options import read_server

if TYPE_CHECKING:
    from service.client.blocking import BlockingClient

TELLS_EVERY_S = 10.0


def connected(server: str | None) -> BlockingClient:
    """A client of the service at ``server``, or else at ``HVXTUNE_SERVER``; without both, of this
    process. While a service does not answer, standard error says so at once and then every few
    seconds."""
    address = read_server(server)
    if address is None:
        from service.here import Here

        return Here()
    from service.client import Client

    return Client(address, on_wait=_Waiting(address))


def place_option(client: BlockingClient) -> str:
    """The end of a command that asks the same service, with a blank before it."""
    from service.here import Here

    return "" if isinstance(client, Here) else f" --server {client.server}"


class _Waiting:
    def __init__(self, server: str) -> None:
        self._server = server
        self._next = time.monotonic()

    def __call__(self, reason: str, left_s: float) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + TELLS_EVERY_S
            sys.stderr.write(
                f"waiting for {self._server}: {reason}; trying again for {left_s:.0f} s, "
                "Ctrl-C to stop\n"
            )
            sys.stderr.flush()
