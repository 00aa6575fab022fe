"""The two clients: they run the conversations of ``operations``, one blocking, one for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, Self

import httpx
from httpx_sse import EventSource

from service.client import connection as transfer
from service.client.answers import Failure, Json, Pause, Reply, Request, Steps
from service.client.blocking import BlockingClient, Operation, P, T
from service.client.cache import ClientCache
from service.client.connection import find_server, find_token, is_loopback
from service.client.operations import PATIENCE_S, Operations
from service.client.persistence import SILENCE_S, Event, EventStream, Received
from service.client.transfers import saving

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_STREAM_TIMEOUT = httpx.Timeout(SILENCE_S, connect=5.0)
_NO_PROXY: dict[str, None] = {"all://": None, "http://": None, "https://": None}
"""Requests to this machine, and their token, go through no proxy."""


class _Connection:
    """The common part of both clients.

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
        self.operations = Operations(self.server, cache or ClientCache(), patience_s)
        self._options = {
            "base_url": self.server,
            "headers": {"User-Agent": "hvxtune-client", "Accept": "application/json, */*;q=0.5"},
            "auth": transfer.Bearer(lambda: find_token(self.server, token)),
            "timeout": _TIMEOUT,
            **({"mounts": _NO_PROXY} if is_loopback(self.server) else {}),
            **options,
        }

    def _tell(self, pause: Pause) -> None:
        if self._on_wait is not None and pause.reason:
            self._on_wait(pause.reason, pause.left_s)

    def _stream_of(self, job: str, after: int) -> EventStream:
        return EventStream(job, after, self.server, self.operations.patience_s)


def awaited(operation: Operation[P, T]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    """``operation`` as a method of :class:`AsyncClient`."""

    @wraps(operation)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(operation(self.operations, *args, **kwargs))

    return method


class Client(_Connection, BlockingClient):
    """A service over HTTP, for code that waits for its answers. Use from one thread at a time."""

    def __init__(self, server: str | None = None, **options: Any) -> None:
        super().__init__(server, **options)
        self._http = httpx.Client(**self._options)

    def close(self) -> None:
        """Frees connections."""
        self._http.close()

    def _received(self, request: Request) -> Iterator[Received | Reply | Failure]:
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


class AsyncClient(_Connection):
    """A service, for asyncio. Use from one event loop; requests may overlap."""

    ready = awaited(Operations.ready)
    kernels = awaited(Operations.kernels)
    targets = awaited(Operations.targets)
    conductors = awaited(Operations.conductors)
    devices = awaited(Operations.devices)
    submit = awaited(Operations.submit)
    submit_network = awaited(Operations.submit_network)
    job = awaited(Operations.job)
    cancel = awaited(Operations.cancel)
    pause = awaited(Operations.pause)
    resume = awaited(Operations.resume)
    annotate = awaited(Operations.annotate)
    network = awaited(Operations.network)
    network_plan = awaited(Operations.network_plan)
    give_network_plan = awaited(Operations.give_network_plan)
    network_bundle = awaited(Operations.network_bundle)
    cancel_network = awaited(Operations.cancel_network)
    pause_network = awaited(Operations.pause_network)
    resume_network = awaited(Operations.resume_network)
    best = awaited(Operations.best)
    best_batch = awaited(Operations.best_batch)
    schedule = awaited(Operations.schedule)
    doubt = awaited(Operations.doubt)
    file = awaited(Operations.file)
    export = awaited(Operations.export)
    import_ = awaited(Operations.import_)
    upload_pipeline = awaited(Operations.upload_pipeline)
    register_package = awaited(Operations.register_package)
    remove_package = awaited(Operations.remove_package)

    def __init__(self, server: str | None = None, **options: Any) -> None:
        super().__init__(server, **options)
        self._http = httpx.AsyncClient(**self._options)

    async def close(self) -> None:
        """Frees connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def jobs(self, **filters: Any) -> AsyncIterator[Json]:
        """See :meth:`Client.jobs`."""
        return self._items(lambda cursor: self.operations.jobs_page(cursor, filters))

    def trials(self, job: str, outcome: str | None = None) -> AsyncIterator[Json]:
        """See :meth:`Client.trials`."""
        return self._items(lambda cursor: self.operations.trials_page(job, cursor, outcome))

    def schedules(self, **filters: Any) -> AsyncIterator[Json]:
        """See :meth:`Client.schedules`."""
        return self._items(lambda cursor: self.operations.schedules_page(cursor, filters))

    def pipelines(self) -> AsyncIterator[Json]:
        """See :meth:`Client.pipelines`."""
        return self._items(self.operations.pipelines_page)

    def packages(self) -> AsyncIterator[Json]:
        """See :meth:`Client.packages`."""
        return self._items(self.operations.packages_page)

    async def events(self, job: str, after: int = 0) -> AsyncIterator[Event]:
        """See :meth:`Client.events`."""
        stream = self._stream_of(job, after)
        while not stream.ended:
            came_to: Reply | Failure
            try:
                async with self._http.stream(
                    **transfer.arguments(stream.request()), timeout=_STREAM_TIMEOUT
                ) as response:
                    came_to = transfer.head_of(response)
                    if transfer.is_stream(response):
                        async for received in EventSource(response).aiter_sse():
                            event = stream.read(received)
                            if event is not None:
                                yield event
                    else:
                        came_to = transfer.reply_of(response, await response.aread())
            except httpx.HTTPError as error:
                came_to = transfer.failure_of(error)
            if not stream.ended:
                await self._sleep(stream.pause(came_to))

    async def wait(self, job: str, on_event: Callable[[Event], None] | None = None) -> Json:
        """See :meth:`Client.wait`."""
        async for event in self.events(job):
            if on_event is not None:
                on_event(event)
        return await self.job(job)

    async def _items(self, page: Callable[[str | None], Steps[Json]]) -> AsyncIterator[Json]:
        cursor: str | None = None
        while True:
            found = await self._run(page(cursor))
            for item in found["items"]:
                yield item
            cursor = found.get("next_cursor")
            if cursor is None:
                return

    async def _sleep(self, pause: Pause) -> None:
        self._tell(pause)
        await asyncio.sleep(pause.seconds)

    async def _run(self, steps: Steps[T]) -> T:
        answer: Reply | Failure | None = None
        while True:
            try:
                wish = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = None
            if isinstance(wish, Pause):
                await self._sleep(wish)
            else:
                answer = await self._send(wish)

    async def _send(self, request: Request) -> Reply | Failure:
        upload = None if request.upload is None else transfer.AsyncUpload(request.upload)
        try:
            async with self._http.stream(**transfer.arguments(request, upload)) as response:
                if request.save_to is not None and response.status_code == 200:
                    with saving(request.save_to) as write:
                        async for part in response.aiter_bytes():
                            write(part)
                    return transfer.head_of(response)
                return transfer.reply_of(response, await response.aread())
        except httpx.HTTPError as error:
            return transfer.failure_of(error)


__all__ = ["AsyncClient", "Client"]
