"""A service under attack by its own callers: what everybody else's requests take meanwhile.

Starts `hvxtune serve`, a process of its own with a limit of 1,024 open files, on the database of
the benchmark `service`. Probes ask for `/healthz` and `/readyz` on new connections and for exact
best schedules on one that is kept, some fifty times a second each: alone, and beside

- batches: 45 clients of 15 callers, each of which sends `POST /v1/schedules/best:batch` with 1,000
  workloads that are not stored, with `allow_nearest`, again and again;
- half-open connections: 1,500 that send the beginning of a head and nothing more;
- uploads: a caller with four pipelines that take Halide long to read; another one's small upload is
  timed beside them.

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks import million_schedules
from benchmarks.harness import Report, tell
from tuner.problem.default_target import DEFAULT_TARGET

P99_LIMIT_MS = 100.0
OPEN_FILES = 1024
CALLERS = 15
ITEMS = 1000
_PAUSE_S = 0.02
_LIMIT_S = 30.0
_STAGES = 220


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
        alone = asyncio.run(small_uploads(service, 1))
        with attack("uploads", service, given):
            beside = asyncio.run(small_uploads(service, 3))
    times_ms = {"p50 ms": ".1f", "p99 ms": ".1f", "worst ms": ".1f"}
    report.table({"probe": "", "beside": "", "answers": ",", "lost": ",", **times_ms})
    for kind, probes in found.items():
        for probe in probes:
            shares = (probe.percentile_ms(share) for share in (0.5, 0.99, 1.0))
            report.row(probe.name, kind, len(probe.took_s), probe.lost, *shares)
    report.remark(
        f"small upload: {max(alone):.1f} s alone, {max(beside):.1f} s at worst beside four of "
        "another caller"
    )
    lost = sum(probe.lost for probes in found.values() for probe in probes)
    report.bar("probes lost", lost, most=0)
    worst_ms = max(probe.percentile_ms(0.99) for probe in found["batches"])
    report.bar("p99 beside batches in ms", worst_ms, most=P99_LIMIT_MS)


@dataclass(frozen=True)
class Service:
    """The running service, and tokens of its callers; the first is the probes'."""

    port: int
    tokens: list[str]


@contextmanager
def served(place: Path) -> Iterator[Service]:
    """`hvxtune serve` over the database at ``place``, ended at the end."""
    environment = {**os.environ, "HVXTUNE_STATE_DIR": str(place), "HVXTUNE_DATABASE_URL": ""}
    tokens = [_new_token(place, f"bench-{number}") for number in range(CALLERS + 1)]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "service.cli",
            "serve",
            "--port",
            "0",
            "--json",
            "--conductors",
            "0",
        ],
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
    with open_store(f"sqlite:///{place / 'hvxtune.sqlite'}") as store:
        now = time.time()
        scopes = ["read", "submit"]
        add_token(
            store, Token(made.id, name, made.digest, scopes, created_at=now, expires_at=now + 3600)
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
    for kernel, params, contract in million_schedules.requests("popular", 500, seed=1):
        query = {"kernel": kernel, "param": ",".join(f"{n}={v}" for n, v in params.items())}
        query |= {"target": DEFAULT_TARGET, "contract": contract.value}
        best.append(f"/v1/schedules/best?{urlencode(query)}")
    probes = [
        Probe("/healthz", ["/healthz"], is_kept=False),
        Probe("/readyz", ["/readyz"], is_kept=False),
        Probe("exact best", best, is_kept=True),
    ]
    until = time.monotonic() + seconds
    await asyncio.gather(*(_probe(probe, service, until) for probe in probes))
    return probes


async def _probe(probe: Probe, service: Service, until: float) -> None:
    streams = None
    number = 0
    while time.monotonic() < until:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(_LIMIT_S):
                if streams is None:
                    streams = await asyncio.open_connection("127.0.0.1", service.port)
                path = probe.paths[number % len(probe.paths)]
                status, _ = await _asked(*streams, "GET", path, service.tokens[0])
            probe.took_s.append(time.perf_counter() - began)
            probe.lost += status not in (200, 404)
        except (OSError, EOFError, TimeoutError):
            probe.lost += 1
            streams = None
        number += 1
        if streams is not None and not probe.is_kept:
            streams[1].close()
            streams = None
        await asyncio.sleep(_PAUSE_S)


async def _asked(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    token: str,
    body: bytes = b"",
    kind: str = "application/octet-stream",
) -> tuple[int, dict[str, str]]:
    length = f"content-length: {len(body)}\r\ncontent-type: {kind}\r\n" if body else ""
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n{length}\r\n"
    )
    writer.write(head.encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in lines[1:])}
    await reader.readexactly(int(headers.get("content-length", 0)))
    return int(lines[0].split()[1]), headers


async def small_uploads(service: Service, count: int) -> list[float]:
    """Seconds that uploads of a caller of their own took, one after the other."""
    took = []
    for number in range(count):
        data = _pipeline(2, 100 + number)
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        path = f"/v1/pipelines?name=small{number}"
        status, _ = await _asked(reader, writer, "POST", path, service.tokens[0], data)
        writer.close()
        if status not in (200, 201):
            sys.exit(f"a small upload was answered {status}")
        took.append(time.perf_counter() - began)
    return took


def _pipeline(stages: int, salt: int) -> bytes:
    import halide as hl

    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    before = hl.Func("stage0")
    before[x, y] = hl.cast(hl.UInt(16), image[x, y]) + salt
    for number in range(1, stages):
        made = hl.Func(f"stage{number}")
        made[x, y] = (before[x, y] + before[x + 1, y + number % 3] * 3 + before[x, y + 1]) / 5
        before = made
    out = hl.Func("out")
    out[x, y] = hl.cast(hl.UInt(8), before[x, y])
    return bytes(hl.serialize_pipeline(hl.Pipeline(out)))


async def _batches(given: argparse.Namespace) -> None:
    """Sends batches of misses until it is told to end."""
    tokens = given.tokens.split(",")
    statuses: Counter[int] = Counter()
    print("begun", flush=True)
    await _until_told([_batch(given.port, tokens, n, statuses) for n in range(given.batches)])
    print(f"{statuses[200]} batches of {ITEMS} answered, by status: {dict(statuses)}")


async def _batch(port: int, tokens: list[str], number: int, statuses: Counter[int]) -> None:
    seed = number * ITEMS
    while True:
        workloads = [
            {"kernel": "gemm_u8", "params": {"m": 700 + i % 97, "n": 2000 + seed + i, "k": 64}}
            for i in range(ITEMS)
        ]
        seed += 100_000
        body = json.dumps({"workloads": workloads, "allow_nearest": True}).encode()
        with suppress(OSError, EOFError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
            path = "/v1/schedules/best:batch"
            status, headers = await _asked(
                reader, writer, "POST", path, tokens[number % len(tokens)], body, "application/json"
            )
            writer.close()
            statuses[status] += 1
            await asyncio.sleep(float(headers.get("retry-after", 0)))


async def _half_open(given: argparse.Namespace) -> None:
    """Keeps connections half open until it is told to end; opens anew what is closed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65_536), most))
    counts: Counter[str] = Counter()
    print("begun", flush=True)
    await _until_told([_keep_half_open(given.port, counts) for _ in range(given.half_open)])
    print(f"{dict(counts)} connections of {given.half_open} clients")


async def _keep_half_open(port: int, counts: Counter[str]) -> None:
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            counts["opened"] += 1
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: be")
            with suppress(OSError):
                await reader.read()
            counts["closed by the service"] += 1
            writer.close()
        await asyncio.sleep(1.0)


async def _uploads(given: argparse.Namespace) -> None:
    """Sends four pipelines that take long to read."""
    token = given.tokens.split(",")[0]
    large = [_pipeline(_STAGES, salt) for salt in range(4)]
    took: list[str] = []

    async def send(number: int) -> None:
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", given.port)
        path = f"/v1/pipelines?name=large{number}"
        status, _ = await _asked(reader, writer, "POST", path, token, large[number])
        took.append(f"{status} after {time.perf_counter() - began:.1f} s")

    print("begun", flush=True)
    await _until_told([send(number) for number in range(4)])
    print(f"of {len(large[0])} bytes: {', '.join(took) or 'none answered yet'}")


async def _until_told(work: list[Any]) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    tasks = [asyncio.ensure_future(one) for one in work]
    await told.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


_ATTACKS = {"batches": _batches, "half-open": _half_open, "uploads": _uploads}
