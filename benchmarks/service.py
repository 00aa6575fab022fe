"""Load on the best-query with a million schedules stored, against an empty route of the same app.

    python -m benchmarks.service [--connections 32] [--seconds 4] [--rounds 3]

The service runs as one process with the options of `hvxtune serve`, its real gate and a real token.
The empty route is a plain FastAPI route (`async def`, answers `{}`) of the same application: it
passes the same server, the same token check and the same middleware, and nothing else. The
best-query passes those too, but is answered before FastAPI looks for a route, so it may take less
time than an empty one. `python -m benchmarks.load_client`, a process of its own, sends the requests
to both, in turns: other load on the machine then meets both alike. Queries ask `uniform`ly among
all 250,000 workloads, where hardly any was asked before, and by popularity (Zipf), as builds do.

The exit status is 1 unless, for both, the 99th percentile is at most 20 ms and the throughput at
least 60 % of the empty route's (medians over the rounds).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

import psutil

from benchmarks import million_schedules
from tuner.target import DEFAULT_TARGET

P99_LIMIT_MS = 20.0
SHARE_LIMIT = 0.6
QUERIES = 60_000
EMPTY = "/bench/empty"


@dataclass(frozen=True)
class Load:
    """What the client found for one kind of request in one round."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    server_us: float
    """Processor time of the service for one request, in microseconds: other load on the machine
    changes it little."""


def main() -> int:
    """Prints a table; the exit status says whether both bars are met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", type=int, metavar="SOCKET", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve)
        return 0
    place = million_schedules.prepared()
    print(
        f"{million_schedules.SCHEDULES:,} schedules, {given.connections} connections, "
        f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f} before",
        flush=True,
    )
    kinds = ("empty", "uniform", "popular")
    found: dict[str, list[Load]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as work, served(place) as server:
        paths = {kind: write_paths(kind, Path(work)) for kind in kinds}
        for _ in range(given.rounds):
            for kind in kinds:
                found[kind].append(load(server, paths[kind], given))
    return report(found)


def report(found: dict[str, list[Load]]) -> int:
    """Prints medians; 1 if a bar is missed."""
    print("\nroute             requests/s   of empty   p50 ms   p99 ms   service us a request")
    missed = 0
    for kind, loads in found.items():
        share = median(
            one.requests_per_s / empty.requests_per_s
            for one, empty in zip(loads, found["empty"], strict=True)
        )
        p99 = median(one.p99_ms for one in loads)
        rate, p50 = median(o.requests_per_s for o in loads), median(o.p50_ms for o in loads)
        cpu_us = median(one.server_us for one in loads)
        label = "empty route" if kind == "empty" else f"best, {kind}"
        print(f"{label:16} {rate:11,.0f} {share:10.0%} {p50:8.1f} {p99:8.1f} {cpu_us:10.0f}")
        if kind != "empty":
            missed += share < SHARE_LIMIT or p99 > P99_LIMIT_MS
    print(
        f"\nbars: p99 at most {P99_LIMIT_MS:g} ms, throughput at least {SHARE_LIMIT:.0%} of the "
        f"empty route's: {'missed' if missed else 'met'}"
    )
    return 1 if missed else 0


def write_paths(kind: str, work: Path) -> Path:
    """The requests of a kind, one path a line, as an HTTP client writes them."""
    file = work / kind
    if kind == "empty":
        file.write_text(EMPTY + "\n")
        return file
    with file.open("w") as lines:
        for kernel, params, contract in million_schedules.requests(kind, QUERIES, seed=1):
            query = {
                "kernel": kernel,
                "params": ",".join(f"{name}={value}" for name, value in params.items()),
                "target": DEFAULT_TARGET,
                "contract": contract.value,
            }
            lines.write(f"/v1/schedules/best?{urlencode(query)}\n")
    return file


def load(server: Server, paths: Path, given: argparse.Namespace) -> Load:
    """One run of the client; ends the benchmark if an answer was not 200."""
    before = server.cpu_s
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.load_client", "--port", str(server.port)),
            *("--paths", str(paths), "--connections", str(given.connections)),
            *("--seconds", str(given.seconds), "--token", server.token),
        ],
        capture_output=True,
        text=True,
        timeout=given.seconds + 60,
    )
    if done.returncode != 0:
        sys.exit(f"the load client failed: {done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout)
    if set(figures["statuses"]) != {"200"} or figures["lost"]:
        sys.exit(f"not every answer to {paths.name} was 200: {done.stdout}")
    print(f"  {paths.name:8} {done.stdout.strip()}", flush=True)
    server_us = 1e6 * (server.cpu_s - before) / figures["answered_with_warm_up"]
    return Load(figures["requests_per_s"], figures["p50_ms"], figures["p99_ms"], server_us)


@dataclass(frozen=True)
class Server:
    """The running service."""

    process: psutil.Process
    port: int
    token: str

    @property
    def cpu_s(self) -> float:
        """Processor time it has used so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def served(place: Path) -> Iterator[Server]:
    """The service over the database at ``place``, in a process of its own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(2048)
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.service", "--serve", str(listener.fileno())],
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
            yield Server(psutil.Process(process.pid), listener.getsockname()[1], token)
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
    from db.tokens import Token, add_token
    from service.app import create_app
    from service.auth.token_gate import TokenGate
    from service.auth.token_text import new_token_text
    from service.serving import settle_memory
    from service.settings import Settings

    with open_store() as store:
        token = new_token_text()
        add_token(store, Token(token.id, "bench", token.digest, ["read"], created_at=time.time()))
        app = create_app(store, TokenGate(store), Settings())

        @app.get(EMPTY)
        async def empty() -> dict[str, str]:
            return {}

        print(token.text, flush=True)
        config = uvicorn.Config(
            app, loop="uvloop", http="httptools", lifespan="off", log_config=None,
            access_log=False, server_header=False,
        )  # fmt: skip
        settle_memory()
        uvicorn.Server(config).run([socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    sys.exit(main())
