"""Talks to a service from elsewhere: a build, a script, the command line.

    from service.client import Client

    with Client("http://127.0.0.1:8100") as service:
        best = service.best("gemm_u8", {"m": 256, "n": 256, "k": 256}, contract="static")
        object_bytes = service.file(best, "object")

Requests and the reading of answers are written once, in ``blocking``, for the client over HTTP and
the service in this process. Errors are those of :mod:`tuner.errors`, found here or by the service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.client.answers import (
    Best,
    EnqueuedError,
    RefusedError,
    ServiceFaultError,
    UnreachableError,
)
from service.client.persistence import Event

if TYPE_CHECKING:
    from service.client.clients import Client

__all__ = [
    "Best",
    "Client",
    "EnqueuedError",
    "Event",
    "RefusedError",
    "ServiceFaultError",
    "UnreachableError",
]


def __getattr__(name: str) -> Any:
    """The client over HTTP when it is asked for: one in this process does without httpx."""
    if name != "Client":
        raise AttributeError(name)
    from service.client.clients import Client

    return Client
