"""A service over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
from httpx_sse import EventSource

from service.client import connection as transfer
from service.client.answers import Failure, Reply, Request
from service.client.blocking import PATIENCE_S, BlockingClient
from service.client.cache import ClientCache
from service.client.connection import find_server, find_token, is_loopback
from service.client.persistence import SILENCE_S, Event, EventStream, Pause, Received
from service.client.transfers import saving

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_STREAM_TIMEOUT = httpx.Timeout(SILENCE_S, connect=5.0)
_NO_PROXY: dict[str, None] = {"all://": None, "http://": None, "https://": None}
"""Requests to this machine, and their token, go through no proxy."""


class Client(BlockingClient):
    """A service over HTTP, for code that waits for its answers. Use from one thread at a time.

    ``server`` is by default the one ``HVXTUNE_SERVER`` names; ``token`` by default the one in
    ``HVXTUNE_TOKEN``, or what a service on this machine left for its user. ``patience_s`` is for
    how long a request is tried again when the service is down or busy; ``on_wait`` is called before
    each time with the reason and the seconds left. ``cache`` keeps answers and objects. ``options``
    go to httpx (``verify``, ``transport``, ``proxy``, ...).
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        patience_s: float = PATIENCE_S,
        cache: ClientCache | None = None,
        on_wait: Callable[[str, float], None] | None = None,
        **options: Any,
    ) -> None:
        self.server = find_server(server)
        self._on_wait = on_wait
        self.cache = cache or ClientCache()
        self.patience_s = patience_s
        settings = {
            "base_url": self.server,
            "headers": {"User-Agent": "hvxtune-client", "Accept": "application/json, */*;q=0.5"},
            "auth": transfer.Bearer(lambda: find_token(self.server, token)),
            "timeout": _TIMEOUT,
            **({"mounts": _NO_PROXY} if is_loopback(self.server) else {}),
            **options,
        }
        self._http = httpx.Client(**settings)

    def close(self) -> None:
        """Frees connections."""
        self._http.close()

    def _sleep(self, pause: Pause) -> None:
        if self._on_wait is not None and pause.reason:
            self._on_wait(pause.reason, pause.left_s)
        super()._sleep(pause)

    def events(self, job: str, after: int = 0) -> Iterator[Event]:
        """As of any client; lives through broken connections and restarts of the service."""
        stream = EventStream(job, after, self.server, self.patience_s)
        while not stream.ended:
            came_to: Reply | Failure = Failure("")
            for received in self._received(stream.request()):
                if isinstance(received, Reply | Failure):
                    came_to = received
                elif (event := stream.read(received)) is not None:
                    yield event
            if not stream.ended:
                self._sleep(stream.pause(came_to))

    def _received(self, request: Request) -> Iterator[Received | Reply | Failure]:
        """The events of the stream that ``request`` opens, and last what it came to."""
        try:
            with self._http.stream(
                **transfer.arguments(request), timeout=_STREAM_TIMEOUT
            ) as response:
                if transfer.is_stream(response):
                    yield from EventSource(response).iter_sse()
                    yield transfer.head_of(response)
                else:
                    yield transfer.reply_of(response, response.read())
        except httpx.HTTPError as error:
            yield transfer.failure_of(error)

    def _send(self, request: Request) -> Reply | Failure:
        upload = None if request.upload is None else transfer.SyncUpload(request.upload)
        try:
            with self._http.stream(**transfer.arguments(request, upload)) as response:
                if request.save_to is not None and response.status_code == 200:
                    with saving(request.save_to) as write:
                        for part in response.iter_bytes():
                            write(part)
                    return transfer.head_of(response)
                return transfer.reply_of(response, response.read())
        except httpx.HTTPError as error:
            return transfer.failure_of(error)
