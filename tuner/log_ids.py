"""Work is followed through the logs by its ids: request, job, trial, worker and device.

They travel in a context variable, from which every line of the log takes them, and go along with
calls to workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

REQUEST = "request_id"

_ids: ContextVar[Mapping[str, str]] = ContextVar("ids", default={})  # noqa: B039 - never changed


def ids() -> Mapping[str, str]:
    """The ids of the current work, by name."""
    return _ids.get()


def bind(**more: object) -> None:
    """Adds to the ids of this thread or task, until it ends."""
    _ids.set({**_ids.get(), **{name: str(value) for name, value in more.items()}})


@contextmanager
def bound(**more: object) -> Iterator[None]:
    """Adds to the ids within."""
    before = _ids.get()
    bind(**more)
    try:
        yield
    finally:
        _ids.set(before)
