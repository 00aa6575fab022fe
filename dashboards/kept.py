"""Results that take long to work out, kept until their subject changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from fastapi import Request

MOST_KEPT = 32

T = TypeVar("T")


class Kept:
    """At most ``most`` results by key, those asked for last. Keys name the subject of a result and
    its state; callers check whether it may be seen. Safe from several threads."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._results: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Hashable) -> Any:
        """The result; ``None`` if it is not kept."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
            return self._results.get(key)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result, made now if it is not kept."""
        found: T | None = self.find(key)
        if found is None:
            found = make()
            with self._lock:
                self._results[key] = found
                while len(self._results) > self._most:
                    self._results.popitem(last=False)
        return found


def kept_of(request: Request) -> Kept:
    """The results that the application keeps."""
    found: Kept = request.app.state.kept
    return found
