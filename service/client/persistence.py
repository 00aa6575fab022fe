"""Persistence: when a request is sent again, after how long, and for how long altogether; and the
events of a job, across broken connections.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from service.client.answers import (
    Failure,
    Json,
    Reply,
    Request,
    UnreachableError,
    not_ours,
    require_good,
)
from tuner.records.trial import JobState

if TYPE_CHECKING:
    from httpx_retries import Retry

RETRIED = frozenset({429, 502, 503, 504})


@cache
def _policy() -> Retry:
    from httpx_retries import Retry

    return Retry(
        total=50,  # time ends it, not the count
        backoff_factor=0.1,
        max_backoff_wait=8.0,
        status_forcelist=RETRIED,
    )


@dataclass(frozen=True)
class Pause:
    """Time to let pass before the next request. ``reason`` says why, unless there is nothing to
    tell; requests are sent again for ``left_s`` at most."""

    seconds: float
    reason: str = ""
    left_s: float = 0.0


class Attempts:
    """The attempts at one request, for at most ``patience_s`` seconds from the first."""

    def __init__(self, patience_s: float) -> None:
        self.retry: Retry | None = None
        self.deadline = time.monotonic() + patience_s

    def pause(self, reply: Reply | Failure) -> Pause | None:
        """The time to wait after an attempt that ended in ``reply``; ``None`` to give up.

        ``Retry-After`` comes on top of a random part, so that clients turned away together do not
        come back together.
        """
        self.retry = (self.retry or _policy()).increment()
        seconds = self.retry.backoff_strategy()
        if isinstance(reply, Reply) and "retry-after" in reply.headers:
            with contextlib.suppress(ValueError):  # not a time: ignored
                seconds += self.retry.parse_retry_after(reply.headers["retry-after"])
        left_s = self.deadline - time.monotonic()
        if seconds > left_s or self.retry.is_exhausted():
            return None
        return Pause(seconds, _why(reply), left_s)


def _why(reply: Reply | Failure) -> str:
    """Why a request is sent again; empty after a stream that merely ended."""
    if isinstance(reply, Failure):
        return reply.reason
    if reply.status == 200:
        return ""
    detail = str(_problem(reply).get("detail") or "")
    is_busy = not detail or _problem(reply).get("kind") in ("busy", "user")
    return f"it is busy (status {reply.status})" if is_busy else detail


def _problem(reply: Reply) -> Json:
    """The problem document in ``reply``; empty without one, as from a proxy."""
    with contextlib.suppress(ValueError):
        found = json.loads(reply.content)
        if isinstance(found, dict):
            return found
    return {}


def may_change(reply: Reply | Failure) -> bool:
    """Whether it is worth asking again: the fault is not one of the installation there."""
    if isinstance(reply, Failure):
        return True
    return reply.status in RETRIED and _problem(reply).get("kind") not in ("toolchain", "internal")


def unreachable(server: str, failure: Failure) -> UnreachableError:
    """The error when nothing answers."""
    return UnreachableError(
        f"no service answers at {server}: {failure.reason}",
        accepted="the address that `hvxtune serve` prints",
        next_step="check that it runs, and --server or HVXTUNE_SERVER",
    )


SILENCE_S = 45.0
"""A stream this long without a byte is dead: the service sends a comment every 15 s."""

KINDS = ("trial", "promotion", "estimate", "state")
"""Kinds of events; others, of a newer service, are ignored."""


@dataclass(frozen=True)
class Event:
    """``kind`` is ``trial`` (``data`` is the trial, the count of finished ones, the best cycles),
    ``promotion`` (``trial``, ``outcome``, ``cycles``), ``estimate`` of the remaining gain
    (``expected``, ``bound``) or ``state`` (``state``, ``paused`` and ``note``)."""

    id: int
    kind: str
    data: Json

    @property
    def ends_job(self) -> bool:
        """Whether nothing comes after it."""
        if self.kind != "state":
            return False
        state = self.data.get("state")
        return state in {one.value for one in JobState if one.ended}


class Received(Protocol):
    """An event as it was sent."""

    @property
    def event(self) -> str: ...
    @property
    def data(self) -> str: ...
    @property
    def id(self) -> str: ...


class EventStream:
    """A client's position in the events of one job; knows no sockets.

    The owner opens :meth:`request`, hands each event it reads to :meth:`read`, and asks
    :meth:`pause` when the connection breaks or ends, until :attr:`ended`.
    """

    def __init__(self, job: str, after: int, server: str, patience_s: float) -> None:
        self.job = job
        self.last = after
        self.ended = False
        self._server = server
        self._patience_s = patience_s
        self._attempts = Attempts(patience_s)

    def request(self) -> Request:
        """Opens the stream after the last event that was read."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.last:
            headers["Last-Event-ID"] = str(self.last)
        return Request("GET", f"/v1/jobs/{self.job}/events", headers=headers)

    def read(self, received: Received) -> Event | None:
        """The event received; ``None`` for one that was seen before or is unknown."""
        if received.event not in KINDS:
            return None
        try:
            data: Any = json.loads(received.data)
            event = Event(int(received.id), received.event, dict(data))
        except (ValueError, TypeError):
            raise not_ours(self._server, "an event cannot be read") from None
        if event.id <= self.last:
            return None
        self.last = event.id
        self.ended = event.ends_job
        self._attempts = Attempts(self._patience_s)  # it works: time counts from here
        return event

    def pause(self, reply: Reply | Failure) -> Pause:
        """The time to wait before the stream is opened again, after it ended in ``reply``; raises
        the error if that is not worth it.
        """
        if isinstance(reply, Reply) and reply.status == 204:  # the last event was seen before
            self.ended = True
            return Pause(0.0)
        if isinstance(reply, Reply) and reply.status not in (*RETRIED, 200):
            require_good(reply, self._server)
        pause = self._attempts.pause(reply)
        if pause is not None:
            return pause
        if isinstance(reply, Reply):
            require_good(reply, self._server)
            raise unreachable(self._server, Failure("its stream of events keeps breaking off"))
        raise unreachable(self._server, reply)
