"""A light closed-loop HTTP load client: N connections, each sends its next request on an answer.

    python -m benchmarks.load_client --port 8100 --paths FILE --seconds 5 [--connections 32]

Run as a process of its own, so that it shares no interpreter lock with what it measures. It reads
answers only as far as their length, which costs a tenth of what a general client does. Prints one
JSON object: requests a second, latency percentiles in milliseconds, answers by status.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import cast

import uvloop

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "


class _Plan:
    """What all connections share: requests to send in turn, and what came of them."""

    def __init__(self, requests: list[bytes], warm_up_s: float, seconds: float) -> None:
        self.requests = requests
        self.next = 0
        now = time.perf_counter()
        self.counts_from = now + warm_up_s
        self.ends_at = self.counts_from + seconds
        self.latencies_s: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.answered = 0
        self.lost = 0

    def request(self) -> bytes:
        request = self.requests[self.next % len(self.requests)]
        self.next += 1
        return request


class _Connection(asyncio.Protocol):
    """One keep-alive connection with one request in flight."""

    def __init__(self, plan: _Plan, done: asyncio.Future[None]) -> None:
        self.plan = plan
        self.done = done
        self.buffer = b""
        self.transport: asyncio.Transport | None = None
        self.sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._send()

    def _send(self) -> None:
        self.sent_at = time.perf_counter()
        if self.transport is not None:
            self.transport.write(self.plan.request())

    def data_received(self, data: bytes) -> None:
        buffer = self.buffer + data if self.buffer else data
        head_end = buffer.find(_END_OF_HEAD)
        length_at = buffer.find(_LENGTH, 0, head_end)
        if head_end < 0:
            self.buffer = buffer
            return
        length = 0
        if length_at >= 0:
            start = length_at + len(_LENGTH)
            length = int(buffer[start : buffer.find(b"\r", start)])
        if len(buffer) < head_end + len(_END_OF_HEAD) + length:
            self.buffer = buffer
            return
        self.buffer = b""
        self._answered(int(buffer[9:12]))

    def _answered(self, status: int) -> None:
        now = time.perf_counter()
        plan = self.plan
        plan.answered += 1
        if now >= plan.ends_at:
            self._end()
            return
        if now >= plan.counts_from:
            plan.latencies_s.append(now - self.sent_at)
            plan.statuses[status] += 1
        self._send()

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
        if self.transport is not None:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.plan.lost += 1
            self._end()


async def _drive(port: int, connections: int, plan: _Plan) -> None:
    loop = asyncio.get_running_loop()
    waits: list[asyncio.Future[None]] = [loop.create_future() for _ in range(connections)]
    for done in waits:
        await loop.create_connection(lambda done=done: _Connection(plan, done), "127.0.0.1", port)
    await asyncio.gather(*waits)


def _percentile(ordered: list[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3, 3)


def main() -> None:
    """Sends the requests and prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--paths", type=Path, required=True, help="a request path a line")
    parser.add_argument("--token", default="")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--warm-up", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    bearer = f"authorization: Bearer {given.token}\r\n" if given.token else ""
    requests = [
        f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{given.port}\r\n{bearer}\r\n".encode()
        for path in given.paths.read_text().splitlines()
    ]
    plan = _Plan(requests, given.warm_up, given.seconds)
    started = time.process_time()
    uvloop.run(_drive(given.port, given.connections, plan))
    ordered = sorted(plan.latencies_s)
    if not ordered:
        sys.exit("no answer came back")
    figures = {
        "requests_per_s": round(len(ordered) / given.seconds, 1),
        **{f"p{int(100 * s)}_ms": _percentile(ordered, s) for s in (0.5, 0.9, 0.99)},
        "max_ms": round(ordered[-1] * 1e3, 3),
        "statuses": dict(plan.statuses),
        "answered_with_warm_up": plan.answered,
        "lost": plan.lost,
        "client_cpu_share": round((time.process_time() - started) / given.seconds, 2),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
