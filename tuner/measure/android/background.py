"""One event loop in a thread of its own, for all phones of a process."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from tuner.errors import DeviceError
from tuner.measure.android.adb import AdbServer

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
