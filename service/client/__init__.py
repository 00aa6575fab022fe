"""Talks to a service from elsewhere: a build, a script, the command line.

    from service.client import Client

    with Client("http://127.0.0.1:8100") as service:
        best = service.best("gemm_u8", {"m": 256, "n": 256, "k": 256}, contract="static")
        object_bytes = service.file(best, "object")

:class:`AsyncClient` is the same for asyncio. What is asked and how answers are read is written
once, in ``operations``, as generators that know no sockets; the two clients run them. Errors are
those of :mod:`tuner.errors`, whoever found them.
"""

from __future__ import annotations

from service.client.answers import (
    Best,
    EnqueuedError,
    RefusedError,
    ServiceFaultError,
    UnreachableError,
)
from service.client.clients import AsyncClient, Client
from service.client.persistence import Event

__all__ = [
    "AsyncClient",
    "Best",
    "Client",
    "EnqueuedError",
    "Event",
    "RefusedError",
    "ServiceFaultError",
    "UnreachableError",
]
