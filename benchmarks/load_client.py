"""A light closed-loop HTTP load client: N connections, each sends its next request on an answer.

    python -m benchmarks.load_client --port 8100 --paths FILE [FILE ...] --seconds 5

Run as a process of its own, so that it shares no interpreter lock with what it measures. It reads
answers only as far as their length, which costs a tenth of what a general client does. Several
files are asked for in turns, ``--slice`` seconds each, over the same connections: what else the
machine does then meets all of them alike. Prints one JSON object for each slice of each file:
requests a second, latency percentiles in milliseconds, answers by status, and with ``--pid`` the
processor seconds of that process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

import psutil
import uvloop

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "


class _Plan:
    """What all connections share: requests to send in turn, and what came of them."""

    def __init__(self, requests: list[bytes]) -> None:
        self.requests = requests
        self.sent = 0
        self.lost = 0
        self.begin(0.0, 0.0)

    def begin(self, warm_up_s: float, seconds: float) -> None:
        """A slice of time, counted from its warm-up on. Goes on with the requests where the one
        before ended: none is sent twice unless all were."""
        now = time.perf_counter()
        self.counts_from = now + warm_up_s
        self.ends_at = self.counts_from + seconds
        self.latencies_s: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.answered = 0

    def request(self) -> bytes:
        request = self.requests[self.sent % len(self.requests)]
        self.sent += 1
        return request


class _Connection(asyncio.Protocol):
    """One keep-alive connection with one request in flight."""

    def __init__(self) -> None:
        self.buffer = b""
        self.transport: asyncio.Transport | None = None
        self.sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def begin(self, plan: _Plan) -> asyncio.Future[None]:
        """Sends requests of ``plan`` until its time is over; the future is done then."""
        self.plan = plan
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.transport is None or self.transport.is_closing():
            self._lose()
        else:
            self._send()
        return self.done

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

    def _lose(self) -> None:
        if not self.done.done():
            self.plan.lost += 1
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        if hasattr(self, "done"):
            self._lose()


async def _drive(given: argparse.Namespace, plans: list[_Plan]) -> None:
    """All slices of all plans, in turns; prints what came of each."""
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(_Connection, "127.0.0.1", given.port)
        for _ in range(given.connections)
    ]
    connections = [cast("_Connection", protocol) for _, protocol in made]
    seconds = min(given.slice, given.seconds)
    for number in range(max(1, round(given.seconds / seconds))):
        # Each goes first as often as any other.
        for turn in range(len(plans)):
            which = (turn + number) % len(plans)
            print(
                json.dumps({"of": which} | await _slice(given, connections, plans[which])),
                flush=True,
            )
    for connection in connections:
        if connection.transport is not None:
            connection.transport.close()


async def _slice(
    given: argparse.Namespace, connections: list[_Connection], plan: _Plan
) -> dict[str, Any]:
    cpu_before, own_before = _cpu_s(given.pid), time.process_time()
    plan.begin(given.warm_up, min(given.slice, given.seconds))
    await asyncio.gather(*[connection.begin(plan) for connection in connections])
    cpu_s, own_s = _cpu_s(given.pid) - cpu_before, time.process_time() - own_before
    seconds = min(given.slice, given.seconds)
    ordered = sorted(plan.latencies_s)
    return {
        "requests_per_s": round(len(ordered) / seconds, 1),
        **{f"p{int(100 * s)}_ms": _percentile(ordered, s) for s in (0.5, 0.9, 0.99)},
        "max_ms": _percentile(ordered, 1.0),
        "statuses": dict(plan.statuses),
        "answered": plan.answered,
        "server_s": round(cpu_s, 3),
        "lost": plan.lost,
        "again": plan.sent > len(plan.requests),
        "client_cpu_share": round(own_s / (seconds + given.warm_up), 2),
    }


def _cpu_s(pid: int | None) -> float:
    """Processor time that a process has used so far."""
    if pid is None:
        return 0.0
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _percentile(ordered: list[float], share: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3, 3)


def main() -> None:
    """Sends the requests and prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--paths", type=Path, required=True, nargs="+", help="a path a line")
    parser.add_argument("--token", default="")
    parser.add_argument("--pid", type=int, help="of the server, whose processor time is told")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--warm-up", type=float, default=0.1, help="seconds of each slice")
    parser.add_argument("--slice", type=float, default=1.0, help="seconds of a file in its turn")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each file in all")
    given = parser.parse_args()
    bearer = f"authorization: Bearer {given.token}\r\n" if given.token else ""
    plans = [
        _Plan(
            [
                f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{given.port}\r\n{bearer}\r\n".encode()
                for path in file.read_text().splitlines()
            ]
        )
        for file in given.paths
    ]
    uvloop.run(_drive(given, plans))


if __name__ == "__main__":
    main()
