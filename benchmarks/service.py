"""Load on the best-query with a million schedules stored, against an empty route of the same app.

The service runs as one process with the options of `hvxtune serve`, its real gate and a real token.
The empty route is a plain FastAPI route (`async def`, answers `{}`) of the same application: it
passes the same server, the same token check and the same middleware, and nothing else. The
best-query passes those too, but is answered before FastAPI looks for a route, so it may take less
time than an empty one. Both are asked in turns of half a second: other load on the machine then
meets both alike, and shares are medians over turns. Queries ask for workloads that nobody asked for
before (`first`: among all 250,000, each once), and by popularity (Zipf), as builds do.

It fails unless, for both, the throughput is at least 90 % of the empty route's, and the 99th
percentile at most 1.3 times the empty route's.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

import uvloop

from benchmarks import million_schedules
from benchmarks.harness import Report
from benchmarks.load_client import Load, ask_in_turns
from tuner.problem.default_target import DEFAULT_TARGET

P99_LIMIT = 1.3
SHARE_LIMIT = 0.9
QUERIES = 200_000
KINDS = ("empty", "first", "popular")
EMPTY = "/bench/empty"


def options(parser: argparse.ArgumentParser) -> None:
    """How much load, for how long."""
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each kind of request")
    parser.add_argument("--slice", type=float, default=0.5, help="seconds of a kind in its turn")
    parser.add_argument("--serve", type=int, metavar="SOCKET", help=argparse.SUPPRESS)


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells a row for each kind of request; or is the service, in a process of its own."""
    if given.serve is not None:
        serve(given.serve)
        return
    place = million_schedules.prepared()
    report.remark(
        f"{million_schedules.SCHEDULES:,} schedules, {given.connections} connections, "
        f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f} before, turns of "
        f"{given.slice:g} s, {given.seconds:g} s of each"
    )
    paths = {kind: paths_of(kind) for kind in KINDS}
    with served(place) as server:
        found = uvloop.run(
            ask_in_turns(
                *(server.port, server.pid, server.token, paths),
                connections=given.connections,
                seconds=given.seconds,
                turn_s=given.slice,
            )
        )
    compare(found, report)


def compare(found: dict[str, list[Load]], report: Report) -> None:
    """Tells medians over the turns."""
    turns = len(found["empty"])
    whole = [n for n in range(turns) if all(loads[n].p99_ms for loads in found.values())]
    if len(whole) < turns:
        report.remark(f"{turns - len(whole)} turns are left out: nothing came back in one")
    found = {kind: [loads[n] for n in whole] for kind, loads in found.items()}
    empty_us = _server_us(found["empty"])
    report.table(
        {
            "route": "",
            "requests/s": ",.0f",
            "of empty": ".0%",
            "p50 ms": ".1f",
            "p99 ms": ".1f",
            "p99 of empty": ".2f",
            "service us": ".0f",
            "us of empty": ".2f",
        }
    )
    for kind, loads in found.items():
        pairs = list(zip(loads, found["empty"], strict=True))
        share = median(one.requests_per_s / empty.requests_per_s for one, empty in pairs)
        tail = median(one.p99_ms / empty.p99_ms for one, empty in pairs)
        figures = [median(getattr(one, n) for one in loads) for n in ("p50_ms", "p99_ms")]
        name = "empty route" if kind == "empty" else f"best, {kind}"
        report.row(
            *(name, median(one.requests_per_s for one in loads), share, *figures, tail),
            *(_server_us(loads), _server_us(loads) / empty_us),
        )
        if kind != "empty":
            report.bar(f"throughput of {kind} by the empty route's", share, least=SHARE_LIMIT)
            report.bar(f"p99 of {kind} by the empty route's", tail, most=P99_LIMIT)


def _server_us(loads: list[Load]) -> float:
    """Processor time of the service for one request, in microseconds."""
    return 1e6 * sum(one.server_s for one in loads) / sum(one.answered for one in loads)


def paths_of(kind: str) -> list[str]:
    """The requests of a kind, as an HTTP client writes them."""
    if kind == "empty":
        return [EMPTY]
    found = []
    for params, contract in million_schedules.requests(kind, QUERIES, seed=1):
        query = {
            "kernel": million_schedules.KERNEL,
            "param": ",".join(f"{name}={value}" for name, value in params.items()),
            "target": DEFAULT_TARGET,
            "contract": contract.value,
        }
        found.append(f"/v1/schedules/best?{urlencode(query)}")
    return found


@dataclass(frozen=True)
class Server:
    """The running service."""

    pid: int
    port: int
    token: str


@contextmanager
def served(place: Path) -> Iterator[Server]:
    """The service with the state directory ``place``, in a process of its own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(2048)
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks", "service", "--serve", str(listener.fileno())],
            env={**os.environ, "HVXTUNE_STATE_DIR": str(place), "HVXTUNE_DATABASE_URL": ""},
            pass_fds=[listener.fileno()],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None  # noqa: S101
            token = process.stdout.readline().strip()
            if not token:
                sys.exit("the service did not start")
            yield Server(process.pid, listener.getsockname()[1], token)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def serve(descriptor: int) -> None:
    """The service itself; prints a token it takes."""
    import uvicorn

    from db import open_store
    from db.access.tokens import Token, add_token
    from service.app import create_app
    from service.auth.gate import Gate
    from service.settings import Settings
    from service.settled_memory import settle_memory
    from service.token_text import new_token_text

    with open_store() as store:
        token = new_token_text()
        add_token(store, Token(token.id, "bench", token.digest, ["read"], created_at=time.time()))
        app = create_app(store, Gate(store), Settings())

        @app.get(EMPTY)
        async def empty() -> dict[str, str]:
            return {}

        print(token.text, flush=True)
        config = uvicorn.Config(
            app, loop="uvloop", http="httptools", lifespan="off", log_config=None,
            access_log=False, server_header=False,
        )  # fmt: skip
        app.state.answers.reads.warm()
        settle_memory()
        uvicorn.Server(config).run([socket.socket(fileno=descriptor)])
