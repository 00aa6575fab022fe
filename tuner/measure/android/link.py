"""The way to one phone, and the event loop in a thread of its own that all phones share."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cache
from typing import Any, TypeVar

from tuner.errors import DeviceError
from tuner.measure.android.adb import AdbClient, AdbServer, Push, RefusedError, ShellOutput, Stat

T = TypeVar("T")


class Background:
    """Runs coroutines for threads that wait for them, next to one adb server."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="adb", daemon=True)
        self._thread.start()
        self.server = AdbServer()

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begins ``work``; cancelling the future ends it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Ends the server and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self.server.close()


@cache
def background() -> Background:
    """The one of this process, started when it is first needed."""
    found = Background()
    atexit.register(found.close)
    return found


# Threads do not live on in a forked child: it starts its own.
os.register_at_fork(after_in_child=background.cache_clear)


class Calls:
    """The calls of one device: one at a time, ended from another thread by :meth:`close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: concurrent.futures.Future[Any] | None = None
        self._closed = False

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``. ``DeviceError`` if the device is or gets closed."""
        with self._lock:
            if self._closed:
                work.close()
                raise DeviceError("the device is closed")
            future = background().start(work)
            self._under_way = future
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise DeviceError("the device was closed during a call") from None
        finally:
            future.cancel()  # what is left of it where this thread was interrupted
            with self._lock:
                self._under_way = None

    def close(self) -> None:
        """Ends a call under way and refuses others. Safe to call twice."""
        with self._lock:
            self._closed = True
            if self._under_way is not None:
                self._under_way.cancel()


_PUSH_S, _BYTES_A_SECOND = 10.0, 1 << 20
"""A transfer may take this long, and as long as a slow wireless network needs for its bytes."""

_NOT_YET = ("not found", "connecting")
_SETTLES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Waits before a phone is looked for again that adb counts as connected and does not find."""


class PhoneLink:
    """Requests to the phone called ``serial`` by adb; by address where ``serial`` is one.

    Within one event loop. Every method raises ``DeviceError`` for faults of adb and of the way.
    """

    def __init__(self, serial: str, *, by_address: bool) -> None:
        self.serial = serial
        self._by_address = by_address
        self._connected_at_start: int | None = None
        self._connecting = asyncio.Lock()

    async def shell(self, server: AdbServer, command: str, timeout_s: float) -> ShellOutput:
        """The command's output and status, once its exit packet has come."""
        return await self._asked(server, lambda c: c.shell(self.serial, command, timeout_s))

    async def push(self, server: AdbServer, files: Sequence[Push]) -> None:
        """Makes files on the phone."""
        seconds = _PUSH_S + sum(len(file.content) for file in files) / _BYTES_A_SECOND
        await self._asked(server, lambda c: c.push(self.serial, files, seconds))

    async def pull(self, server: AdbServer, path: str, most_bytes: int) -> bytes:
        """A file's content."""
        seconds = _PUSH_S + most_bytes / _BYTES_A_SECOND
        return await self._asked(server, lambda c: c.pull(self.serial, path, seconds, most_bytes))

    async def stat(self, server: AdbServer, path: str, timeout_s: float) -> Stat | None:
        """The file at ``path``, if it exists."""
        return await self._asked(server, lambda c: c.stat(self.serial, path, timeout_s))

    async def reconnect(self, server: AdbServer) -> None:
        """Makes adb forget the phone and look for it again."""
        self._connected_at_start = None
        if self._by_address:
            await (await server.client()).disconnect(self.serial)

    async def _asked(self, server: AdbServer, ask: Callable[[AdbClient], Awaitable[T]]) -> T:
        client = await server.client()
        starts = server.starts
        try:
            if self._by_address:
                return await self._connected(client, starts, ask)
            return await ask(client)
        except DeviceError as error:
            self._connected_at_start = None
            if not isinstance(error, RefusedError) and await server.has_ended(starts):
                raise DeviceError("this machine's adb server ended in a call", attempts=0) from None
            raise _explained(error, self.serial) from None

    async def _connected(
        self, client: AdbClient, starts: int, ask: Callable[[AdbClient], Awaitable[T]]
    ) -> T:
        """Connects where needed, then asks. A connection that adb is about to drop, and one that it
        has not made yet, count as one and are not found: then nothing was asked of the phone, and
        it is connected again."""
        for settle_s in _SETTLES_S:
            await self._connect(client, starts)
            try:
                return await ask(client)
            except RefusedError as error:
                if not any(word in error.reason for word in _NOT_YET):
                    raise
            self._connected_at_start = None
            await asyncio.sleep(settle_s)
        await self._connect(client, starts)
        return await ask(client)

    async def _connect(self, client: AdbClient, starts: int) -> None:
        """One at a time: a second one would be told that the first is connected before it is."""
        async with self._connecting:
            # A restarted server knows no phone by its address.
            if self._connected_at_start != starts:
                await client.connect(self.serial)
                self._connected_at_start = starts


def _explained(error: DeviceError, serial: str) -> DeviceError:
    """With what the phone's owner can do."""
    reason = error.reason if isinstance(error, RefusedError) else ""
    if "unauthorized" in reason:
        return DeviceError(
            f"{serial} has not authorized this machine",
            next_step="unlock the phone and accept the key it shows",
        )
    if "not found" in reason or "offline" in reason:
        return DeviceError(
            error.message, next_step="check its cable or address, and that USB debugging is on"
        )
    return error
