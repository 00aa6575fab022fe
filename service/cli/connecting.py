"""A client of a service that says what it waits for."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.client import Client

TELLS_EVERY_S = 10.0


def connected(server: str) -> Client:
    """A client of the service at ``server``. While that does not answer, standard error says so at
    once and then every few seconds."""
    from service.client import Client

    return Client(server, on_wait=_Waiting(server))


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
