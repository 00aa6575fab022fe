"""A service under attack by its own callers: what everybody else's requests take meanwhile.

Starts `hvxtune serve`, a process of its own with a limit of 1,024 open files, on the database of
the benchmark `service`. Probes ask for `/healthz` and `/readyz` on new connections and for exact
best schedules on one that is kept, some fifty times a second each: alone, and beside

- batches: 45 clients of 15 callers, each of which sends `POST /v1/schedules/best:batch` with 1,000
  workloads that are not stored, with `allow_nearest`, again and again;
- half-open connections: 1,500 that send the beginning of a head and nothing more.

It fails unless the 99th percentile of each probe beside batches is at most 100 ms, and every probe
is answered. All traffic stays on loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from benchmarks import million_schedules
from benchmarks.harness import Report, tell
from tuner.problem.default_target import DEFAULT_TARGET

P99_LIMIT_MS = 100.0
OPEN_FILES = 1024
CALLERS = 15
ITEMS = 1000
_PAUSE_S = 0.02
_LIMIT_S = 30.0


@dataclass
class Probe:
    """One kind of request; ``is_kept`` says whether all go over one connection."""

    name: str
    paths: list[str]
    is_kept: bool
    took_s: list[float] = field(default_factory=list)
    lost: int = 0

    def percentile_ms(self, share: float) -> float:
        """Of the answers so far."""
        ordered = sorted(self.took_s)
        return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def options(parser: argparse.ArgumentParser) -> None:
    """How long, and how large the attacks are."""
    parser.add_argument(
        "--seconds",
        type=float,
        default=12.0,
        help="of a measurement; beside batches five times as many, so that some are answered",
    )
    parser.add_argument("--batches", type=int, default=45)
    parser.add_argument("--half-open", type=int, default=1500)
    parser.add_argument("--attack", choices=_ATTACKS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--tokens", default="", help=argparse.SUPPRESS)


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells what the probes saw; or is one of the attacks, in a process of its own."""
    if given.attack:
        asyncio.run(_ATTACKS[given.attack](given))
        return
    place = million_schedules.prepared()
    report.remark(
        f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f} before, "
        f"{OPEN_FILES} open files"
    )
    with served(place) as service:
        found: dict[str, list[Probe]] = {"alone": asyncio.run(probed(service, given.seconds))}
        for kind, times in (("batches", 5), ("half-open", 1)):
            with attack(kind, service, given):
                found[kind] = asyncio.run(probed(service, times * given.seconds))
    times_ms = {"p50 ms": ".1f", "p99 ms": ".1f", "worst ms": ".1f"}
    report.table({"probe": "", "beside": "", "answers": ",", "lost": ",", **times_ms})
    for kind, probes in found.items():
        for probe in probes:
            shares = (probe.percentile_ms(share) for share in (0.5, 0.99, 1.0))
            report.row(probe.name, kind, len(probe.took_s), probe.lost, *shares)
    lost = sum(probe.lost for probes in found.values() for probe in probes)
    report.bar("probes lost", lost, most=0)
    worst_ms = max(probe.percentile_ms(0.99) for probe in found["batches"])
    report.bar("p99 beside batches in ms", worst_ms, most=P99_LIMIT_MS)


@dataclass(frozen=True)
class Service:
    """The running service, and tokens of its callers; the first is the probes'."""

    port: int
    tokens: list[str]

    def client(self) -> httpx.AsyncClient:
        """That of the probes."""
        headers = {"authorization": f"Bearer {self.tokens[0]}"}
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=_LIMIT_S
        )


@contextmanager
def served(place: Path) -> Iterator[Service]:
    """`hvxtune serve` over the database at ``place``, ended at the end."""
    environment = {**os.environ, "HVXTUNE_STATE_DIR": str(place), "HVXTUNE_DATABASE_URL": ""}
    tokens = [_new_token(place, f"bench-{number}") for number in range(CALLERS + 1)]
    command = [*(sys.executable, "-m", "service.cli"), "serve", "--port=0", "--json"]
    process = subprocess.Popen(
        [*command, "--conductors=0"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES)),
    )
    try:
        assert process.stdout is not None  # noqa: S101
        line = process.stdout.readline()
        if not line:
            sys.exit("the service did not start")
        yield Service(int(json.loads(line)["url"].rpartition(":")[2]), tokens)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def _new_token(place: Path, name: str) -> str:
    from db import open_store
    from db.access.tokens import Token, add_token
    from service.token_text import new_token_text

    made = new_token_text()
    now = time.time()
    with open_store(f"sqlite:///{place / 'hvxtune.sqlite'}") as store:
        add_token(
            store,
            Token(made.id, name, made.digest, ["read"], created_at=now, expires_at=now + 3600),
        )
    return made.text


@contextmanager
def attack(kind: str, service: Service, given: argparse.Namespace) -> Iterator[None]:
    """Runs the attack in a process of its own; tells what it says about itself."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks", "load", "--attack", kind),
            *("--port", str(service.port), "--tokens", ",".join(service.tokens[1:])),
            *("--batches", str(given.batches), "--half-open", str(given.half_open)),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None  # noqa: S101
    try:
        process.stdout.readline()  # it has begun
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        tell(f"  {kind}: {process.stdout.read().strip()}")
        process.wait(30)


async def probed(service: Service, seconds: float) -> list[Probe]:
    """What the probes saw in so many seconds."""
    best = []
    for params, contract in million_schedules.requests("popular", 500, seed=1):
        query = {
            "kernel": million_schedules.KERNEL,
            "param": ",".join(f"{n}={v}" for n, v in params.items()),
        }
        query |= {"target": DEFAULT_TARGET, "contract": contract.value}
        best.append(f"/v1/schedules/best?{urlencode(query)}")
    probes = [
        Probe("/healthz", ["/healthz"], is_kept=False),
        Probe("/readyz", ["/readyz"], is_kept=False),
        Probe("exact best", best, is_kept=True),
    ]
    until = time.monotonic() + seconds
    async with service.client() as client:
        await asyncio.gather(*(_probe(probe, client, until) for probe in probes))
    return probes


async def _probe(probe: Probe, client: httpx.AsyncClient, until: float) -> None:
    headers = {} if probe.is_kept else {"connection": "close"}
    while time.monotonic() < until:
        path = probe.paths[len(probe.took_s) % len(probe.paths)]
        began = time.perf_counter()
        try:
            answer = await client.get(path, headers=headers)
            probe.took_s.append(time.perf_counter() - began)
            probe.lost += answer.status_code not in (200, 404)
        except httpx.HTTPError:
            probe.lost += 1
        await asyncio.sleep(_PAUSE_S)


async def _batches(given: argparse.Namespace) -> None:
    """Sends batches of misses until it is told to end."""
    tokens = given.tokens.split(",")
    statuses: Counter[int] = Counter()
    url = f"http://127.0.0.1:{given.port}/v1/schedules/best:batch"

    async def send(number: int) -> None:
        seed = number * ITEMS
        headers = {"authorization": f"Bearer {tokens[number % len(tokens)]}", "connection": "close"}
        while True:
            workloads = [
                {
                    "kernel": million_schedules.KERNEL,
                    "params": {"width": 2000 + i + seed % 50_000, "height": 700 + i % 97},
                }
                for i in range(ITEMS)
            ]
            seed += ITEMS
            body = {"workloads": workloads, "allow_nearest": True}
            with suppress(httpx.HTTPError):
                answer = await client.post(url, json=body, headers=headers)
                statuses[answer.status_code] += 1
                await asyncio.sleep(float(answer.headers.get("retry-after", 0)))

    async with httpx.AsyncClient(timeout=httpx.Timeout(None), limits=httpx.Limits()) as client:
        await _until_told([send(number) for number in range(given.batches)])
    print(f"{statuses[200]} batches of {ITEMS} answered, by status: {dict(statuses)}")


async def _half_open(given: argparse.Namespace) -> None:
    """Keeps connections half open until it is told to end; opens anew what is closed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65_536), most))
    counts: Counter[str] = Counter()

    async def keep() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", given.port)
                counts["opened"] += 1
                writer.write(b"GET /healthz HTTP/1.1\r\nhost: be")
                with suppress(OSError):
                    await reader.read()
                counts["closed by the service"] += 1
                writer.close()
            await asyncio.sleep(1.0)

    await _until_told([keep() for _ in range(given.half_open)])
    print(f"{dict(counts)} connections of {given.half_open} clients")


async def _until_told(work: list[Coroutine[Any, Any, None]]) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    print("begun", flush=True)
    tasks = [asyncio.ensure_future(one) for one in work]
    await told.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


_ATTACKS = {"batches": _batches, "half-open": _half_open}
