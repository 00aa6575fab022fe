"""Explanations and assembly on demand: made once, in a thread of their own, and kept while they are
of use.

Explaining runs the candidate again in its contained process, about a second; assembly compiles it
again. A page asks for them and asks again until they are ready.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

KEPT = 64
MOST_WAITING = 16


class Explanations:
    """Results by key; the one least recently asked for is forgotten first."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, Future[Any]] = OrderedDict()
        self._lock = threading.Lock()
        # One at a time: simulating takes a whole processor, and jobs want those.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="explain")

    def ask(self, key: str, make: Callable[[], T]) -> T | None:
        """The result of ``make`` for ``key``; ``None`` while that is under way, or while too many
        others wait. An error of ``make`` is raised here, once: the next one asks again."""
        with self._lock:
            future = self._made.get(key)
            if future is None:
                if sum(not each.done() for each in self._made.values()) >= MOST_WAITING:
                    return None
                future = self._made[key] = self._worker.submit(make)
            self._made.move_to_end(key)
            if len(self._made) > KEPT:
                self._made.popitem(last=False)[1].cancel()
            if not future.done():
                return None
            if future.exception() is not None:
                del self._made[key]
        made: T = future.result()
        return made
