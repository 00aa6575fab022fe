"""Connections: how many, and how slowly a request may come in or an answer be taken.

uvicorn closes a connection that idles after an answer, but keeps forever one that never sends a
whole head, or trickles its body. Here every phase has a deadline. When connections run out, the one
that has waited longest for its client is closed for the new one: a flood of half-open connections
drives itself out, and a client that sends a request at once is answered.
"""

from __future__ import annotations

import asyncio
import resource
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.auth.caller import network_of
from service.settings import ConnectionLimits

MOST_HEAD_BYTES = 32 << 10
KEPT_DESCRIPTORS = 256
"""Of the process's limit: for the database, conductors, readers and files that are sent."""
BACKLOG = 384
"""Connections that the system completes ahead of their acceptance."""
_FEWEST = 16
_SWEEP_S = 1.0

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n"
    b"retry-after: 2\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
)
_TOO_MANY = (
    b'{"type": "urn:hvxtune:error:busy", "title": "The service cannot answer now", "status": 503, '
    b'"detail": "all connections are in use", "kind": "busy", "accepted": "", '
    b'"next_step": "come back in 2 s"}'
)
_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def within_descriptors(limits: ConnectionLimits) -> ConnectionLimits:
    """``limits``, with fewer connections if the process may not open as many files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits
    room = max(_FEWEST, soft - KEPT_DESCRIPTORS - BACKLOG)
    return replace(limits, most=min(limits.most, room), each=min(limits.each, room))


class _Waiting:
    """Connections, of all addresses or of one, that wait for their clients, the longest first:
    ``new`` ones, without a whole request yet, and ``idle`` ones."""

    def __init__(self) -> None:
        self.connections = 0
        self.new: OrderedDict[_Protocol, None] = OrderedDict()
        self.idle: OrderedDict[_Protocol, None] = OrderedDict()


class Connections:
    """The open connections of one service, for one event loop. Its server makes each by
    :meth:`protocol`."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all: dict[_Protocol, str] = {}
        self._waiting = _Waiting()
        self._of: dict[str, _Waiting] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._all)

    def protocol(self, *arguments: Any, **named: Any) -> asyncio.Protocol:
        """Makes a new connection; uvicorn is given it as its class of protocols."""
        return _Protocol(self, *arguments, **named)

    def add(self, one: _Protocol, address: str) -> bool:
        """Takes a new connection in; false if no place is free or can be freed."""
        own = self._of.get(address)
        if own is not None and own.connections >= self.limits.each and not self._close(own):
            return False
        if len(self._all) >= self.limits.most and not self._close(self._waiting):
            return False
        self._all[one] = address
        self._of.setdefault(address, _Waiting()).connections += 1
        self.waits(one, is_new=True)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)
        return True

    def remove(self, one: _Protocol) -> None:
        """The connection is closed, or about to be."""
        self.works(one)
        address = self._all.pop(one, None)
        if address is not None:
            self._of[address].connections -= 1
            if not self._of[address].connections:
                del self._of[address]

    def waits(self, one: _Protocol, *, is_new: bool = False) -> None:
        """From now on the connection waits for its client to send a request."""
        address = self._all.get(one)
        if address is not None:
            for waiting in (self._waiting, self._of[address]):
                (waiting.new if is_new else waiting.idle)[one] = None

    def works(self, one: _Protocol) -> None:
        """The connection has a request."""
        address = self._all.get(one)
        if address is not None:
            for waiting in (self._waiting, self._of[address]):
                waiting.new.pop(one, None)
                waiting.idle.pop(one, None)

    def _close(self, waiting: _Waiting) -> bool:
        """Closes the connection that has waited longest, if any waits: preferably one that never
        sent a request."""
        oldest = next(iter(waiting.new or waiting.idle), None)
        if oldest is None:
            return False
        self.remove(oldest)
        oldest.transport.abort()
        return True

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for one in [one for one in self._all if one.is_late(now)]:
            one.give_up()
        self._sweeper = loop.call_later(_SWEEP_S, self._sweep) if self._all else None


class _Protocol(HttpToolsProtocol):
    """uvicorn's, with two deadlines: for what should come in, and for what should go out."""

    def __init__(self, connections: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._connections = connections
        self._limits = connections.limits
        self._in_by: float | None = None
        self._out_by: float | None = None
        self._in_head = True
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._in_by = self.loop.time() + self._limits.head_s
        if not self._connections.add(self, network_of(self.client[0]) if self.client else ""):
            transport.write(_BUSY % (len(_TOO_MANY), _TOO_MANY))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        elif self._in_by is not None:
            self._in_by += len(data) / self._limits.body_bytes_per_s
        super().data_received(data)
        if self._in_head and self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_head:  # the first head's time began with the connection
            self._in_head = True
            self._in_by = self.loop.time() + self._limits.head_s

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._in_by = self.loop.time() + self._limits.body_grace_s
        self._connections.works(self)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_by = None
        super().on_message_complete()
        if self.cycle.response_complete:
            self._idle()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline and not self._in_head:
            self._connections.waits(self)
            if self._in_by is None:
                self._idle()

    def _idle(self) -> None:
        self._in_by = self.loop.time() + self._limits.keep_alive_s

    def pause_writing(self) -> None:
        super().pause_writing()
        self._out_by = self.loop.time() + self._limits.stalled_answer_s

    def resume_writing(self) -> None:
        super().resume_writing()
        self._out_by = None

    def is_late(self, now: float) -> bool:
        """Whether the client has taken too long."""
        if self._in_by is not None and self.flow.read_paused:  # it is we who do not read
            self._in_by = max(self._in_by, now + self._limits.body_grace_s)
        return any(by is not None and now > by for by in (self._in_by, self._out_by))

    def give_up(self) -> None:
        """Closes the connection on a client that is too slow."""
        self._connections.remove(self)
        cycle = self.cycle
        is_answering = cycle is not None and not cycle.response_complete
        if is_answering:
            cycle.disconnected = True
            cycle.message_event.set()
        if is_answering and cycle.response_started:
            self.transport.abort()
            return
        if self._in_head or is_answering:
            self.transport.write(_TIMEOUT)
        self.transport.close()
