"""A light closed-loop HTTP load client: N connections, each sends its next request on an answer.

It reads answers only as far as their length, which costs a tenth of what a general client does.
Several kinds of request go in turns over the same connections: what else the machine does then
meets all of them alike.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import psutil

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "
_WARM_UP_S = 0.1


@dataclass(frozen=True)
class Load:
    """What came of one kind of request in one turn; percentiles of 0 if nothing came back."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    answered: int
    server_s: float
    """Processor time of the service: other load on the machine changes it less."""


class _Plan:
    """What all connections share: requests to send in turn, and what came of them."""

    def __init__(self, requests: Sequence[bytes]) -> None:
        self._requests = requests
        self.sent = 0
        self.begin(0.0)

    def begin(self, seconds: float) -> None:
        """A turn, counted from its warm-up on. Goes on with the requests where the one before
        ended: none is sent twice unless all were."""
        self.counts_from = time.perf_counter() + _WARM_UP_S
        self.ends_at = self.counts_from + seconds
        self.latencies_s: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.answered = 0

    def request(self) -> bytes:
        request = self._requests[self.sent % len(self._requests)]
        self.sent += 1
        return request

    def percentile_ms(self, share: float) -> float:
        ordered = sorted(self.latencies_s)
        return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class _Connection(asyncio.Protocol):
    """One keep-alive connection with one request in flight."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._buffer = b""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def begin(self, plan: _Plan) -> asyncio.Future[None]:
        """Sends requests of ``plan`` until its time is over; the future is done then."""
        self._plan = plan
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._send()
        return self._done

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self.transport.write(self._plan.request())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(_END_OF_HEAD)
        if head_end < 0:
            return
        length_at = self._buffer.find(_LENGTH, 0, head_end)
        length = 0
        if length_at >= 0:
            start = length_at + len(_LENGTH)
            length = int(self._buffer[start : self._buffer.find(b"\r", start)])
        if len(self._buffer) < head_end + len(_END_OF_HEAD) + length:
            return
        status, self._buffer = int(self._buffer[9:12]), b""
        now, plan = time.perf_counter(), self._plan
        plan.answered += 1
        if now >= plan.ends_at:
            self._done.set_result(None)
            return
        if now >= plan.counts_from:
            plan.latencies_s.append(now - self._sent_at)
            plan.statuses[status] += 1
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(ConnectionError("the service ended a connection"))


async def ask_in_turns(
    port: int,
    pid: int,
    token: str,
    paths: Mapping[str, Sequence[str]],
    *,
    connections: int,
    seconds: float,
    turn_s: float,
) -> dict[str, list[Load]]:
    """Asks for each kind of ``paths`` for ``seconds`` in all; a row for each turn of it.

    Raises ``ValueError`` for an answer other than 200, and if a kind that has several paths ran
    out of them.
    """
    head = f" HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\n\r\n"
    plans = {
        kind: _Plan([f"GET {path}{head}".encode() for path in own]) for kind, own in paths.items()
    }
    made = [
        (await asyncio.get_running_loop().create_connection(_Connection, "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    found: dict[str, list[Load]] = {kind: [] for kind in plans}
    service = psutil.Process(pid)
    for number in range(max(1, round(seconds / turn_s))):
        kinds = [*plans]
        for turn in range(len(kinds)):  # each goes first as often as any other
            kind = kinds[(turn + number) % len(kinds)]
            plan, before_s = plans[kind], _cpu_s(service)
            plan.begin(turn_s)
            await asyncio.gather(*[one.begin(plan) for one in made])
            if not set(plan.statuses) <= {200}:
                raise ValueError(f"not every answer to {kind} was 200: {dict(plan.statuses)}")
            if 1 < len(paths[kind]) < plan.sent:
                raise ValueError(f"all {len(paths[kind]):,} paths of {kind} were asked for")
            found[kind].append(
                Load(
                    len(plan.latencies_s) / turn_s,
                    plan.percentile_ms(0.5),
                    plan.percentile_ms(0.99),
                    plan.answered,
                    _cpu_s(service) - before_s,
                )
            )
    for one in made:
        one.transport.close()
    return found


def _cpu_s(process: psutil.Process) -> float:
    """Processor time that a process has used so far."""
    times = process.cpu_times()
    return float(times.user + times.system)
