"""Jobs and trials in PostgreSQL beside a load of best-queries.

100 jobs with 1,000 trials each are stored first, by 10 users, a third of them within the last ten
minutes. Then conductors, each a process with a store of its own, claim jobs and commit trials with
new objects, 60 a second in all, at random times, as the trials of several machines end. One more
submits the jobs that they take, and `hvxtune serve` answers ``--queries`` best-queries a second for
all of the stored workloads. Jobs of every user wait all the time. The first claim of each conductor
is left out: it adds up what users got in the last ten minutes, which later ones go on from.

Without ``--url`` a PostgreSQL server is started with its defaults, `fsync` included, in the
temporary directory (`TMPDIR`); the database at a URL must be empty, and keeps what is written to
it.

The 99th percentiles of submitting, claiming and committing may be 20 ms at most.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import func, insert, select, text

from benchmarks.harness import Report
from benchmarks.service import served
from db import open_store
from db.jobs.queue import WINDOW_S
from db.models import MeasurementRow, TrialRow
from db.sql_store import SqlStore
from service.settled_memory import settle_memory
from tests.db.postgres_server import running_server
from tests.service.stored import problem, store_schedule
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, pending, spec
from tuner.records.trial import JobState, Submission

LIMIT_MS = 20.0
JOBS, TRIALS_EACH, USERS = 100, 1000, 10
CONDUCTORS, PACE_S, TRIALS = 6, 0.1, 10
"""Conductors end a trial each this often on average, at random and apart from each other (Poisson):
60 a second in all, of jobs with 10 trials."""
OPERATIONS = ("submit", "claim", "commit")
_STARTING_S = 2
"""The load of best-queries runs this long before anything is timed."""

Timed = dict[str, list[float]]


def stored(store: SqlStore) -> list[str]:
    """Fills the database; the queries for its workloads."""
    random = Random(1)
    queries = []
    for number in range(JOBS):
        params = {"m": 8 + number, "n": 128, "k": 64}
        submission = Submission(f"user{number % USERS}")
        made = store_schedule(store, problem(**params), 1000, submission=submission)
        _add_trials(store, made.partition("-")[0], random)
        asked = {
            "kernel": "gemm_u8",
            "params": ",".join(f"{name}={value}" for name, value in params.items()),
            "target": "hexagon-v66",
            "contract": "static",
        }
        queries.append(f"/v1/schedules/best?{urlencode(asked)}")
    return queries


def _add_trials(store: SqlStore, job_id: str, random: Random) -> None:
    """All trials of a job but its first, like that, in bulk."""
    with store.writing() as session:
        first = session.get_one(TrialRow, (job_id, 0))
        measurement = first.measurement
        assert measurement is not None  # noqa: S101 - the first trial of each is ok
        last = session.scalar(select(func.max(MeasurementRow.id))) or 0
        ids = range(last + 1, last + TRIALS_EACH)
        kept = [c.name for c in MeasurementRow.__table__.columns if c.name != "id"]
        values = {name: getattr(measurement, name) for name in kept}
        session.execute(insert(MeasurementRow), [{**values, "id": one} for one in ids])
        names = ("config", "config_digest", "origin", "outcome", "artifact_digest")
        same = {name: getattr(first, name) for name in names}
        rows = []
        for number, measured in enumerate(ids, start=1):
            ended = time.time() - random.uniform(0.0, 3 * WINDOW_S)
            rows.append(
                {
                    **same,
                    "job_id": job_id,
                    "number": number,
                    "measurement_id": measured,
                    "started_at": ended - 1.0,
                    "finished_at": ended,
                }
            )
        session.execute(insert(TrialRow), rows)
        session.execute(
            select(func.setval(func.pg_get_serial_sequence("measurements", "id"), ids[-1]))
        )


@contextmanager
def timed(into: list[float]) -> Iterator[None]:
    """Adds the milliseconds of what is done within to a list."""
    began = time.perf_counter()
    yield
    into.append((time.perf_counter() - began) * 1e3)


def conduct(url: str, number: int, seconds: float, tell: Connection) -> None:
    """One conductor. Tells how long its claims and commits took."""
    claims: list[float] = []
    commits: list[float] = []
    numbers = count(1_000_000 * (number + 1))
    random = Random(number)
    with closing(open_store(url)) as store:
        queue = store.queue()
        first = queue.take_next()  # adds up the trials of ten minutes, once
        settle_memory()  # as conductors do
        tell.send("here")
        tell.recv()
        next_at = ends_at = time.monotonic()
        ends_at += seconds
        while time.monotonic() < ends_at:
            took: list[float] = []
            with timed(took):
                job = first or queue.take_next()
            if job is None:
                time.sleep(0.02)
                continue
            if first is None:
                claims += took
            first = None
            store.commit(job.id, job.token, started=[pending(0)])
            for trial in range(TRIALS):
                next_at = max(next_at + random.expovariate(1 / PACE_S), time.monotonic())
                time.sleep(max(0.0, next_at - time.monotonic()))
                made = artifact(next(numbers))
                finished, started = [ok(trial, made)], [pending(trial + 1)][: trial < TRIALS - 1]
                with timed(commits):
                    store.commit(
                        job.id, job.token, finished=finished, started=started, artifacts=[made]
                    )
            store.release(job.id, job.token, JobState.DONE)
    tell.send({"claim": claims, "commit": commits})


def submit(store: SqlStore, seconds: float) -> list[float]:
    """Submits jobs at the rate at which they are taken; the milliseconds of each."""
    took: list[float] = []
    every_s = PACE_S * TRIALS / CONDUCTORS
    ends_at = time.monotonic() + seconds
    for number in count():
        if time.monotonic() >= ends_at:
            return took
        user = Submission(f"user{number % USERS}")
        with timed(took):
            store.create_job(spec(), SPACE, TOOLCHAIN, user)
        time.sleep(every_s)
    raise AssertionError


def measure(url: str, state: Path, given: argparse.Namespace) -> dict[str, Any]:
    """The milliseconds of all operations, and what the load of best-queries got."""
    spawned = multiprocessing.get_context("spawn")
    with closing(open_store(url)) as store:
        paths = state / "queries"
        paths.write_text("\n".join(stored(store)) + "\n")
        with store.writing() as session:
            trials = session.scalar(select(func.count()).select_from(TrialRow))
            session.execute(text("ANALYZE"))  # as the server does by itself after a minute
        for number in range(2 * USERS):
            store.create_job(spec(), SPACE, TOOLCHAIN, Submission(f"user{number % USERS}"))
        pipes = [spawned.Pipe() for _ in range(CONDUCTORS)]
        conductors = [
            spawned.Process(target=conduct, args=(url, number, given.seconds, there))
            for number, (_, there) in enumerate(pipes)
        ]
        for one in conductors:
            one.start()
        for here, _ in pipes:
            here.recv()
        with served(state, url) as server:
            client = subprocess.Popen(
                [
                    *(sys.executable, "-m", "benchmarks.load_client", "--port", str(server.port)),
                    *("--paths", str(paths), "--connections", "8"),
                    *("--rate", str(given.queries)),
                    *("--seconds", str(given.seconds + _STARTING_S), "--slice", "1"),
                    *("--token", server.token, "--pid", str(server.process.pid)),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert client.stdout is not None  # noqa: S101 - piped
            for _ in range(_STARTING_S):  # it starts up, and its connections are made
                client.stdout.readline()
            for here, _ in pipes:
                here.send("begin")
            found: Timed = {"submit": submit(store, given.seconds), "claim": [], "commit": []}
            for here, _ in pipes:
                for name, took in here.recv().items():
                    found[name] += took
            slices = [json.loads(line) for line in client.communicate()[0].splitlines()]
        for one in conductors:
            one.join()
    for line in slices:
        if not set(line["statuses"]) <= {"200"} or line["lost"]:
            raise SystemExit(f"not every best-query was answered with 200: {line}")
    seconds = [line for line in slices if line["p99_ms"] is not None]
    return {
        "stored_trials": trials,
        **found,
        "best_queries_per_s": sum(one["requests_per_s"] for one in seconds) / len(seconds),
        "best_query_p99_ms": max(one["p99_ms"] for one in seconds),
    }


@contextmanager
def database(url: str | None) -> Iterator[str]:
    """The URL of an empty database: the one given, or one in a server started for it."""
    if url is not None:
        yield url
        return
    with running_server(durable=True) as socket_folder:
        yield f"postgresql://hvxtune@/postgres?host={socket_folder}"


def options(parser: argparse.ArgumentParser) -> None:
    """How long, beside which load, and where."""
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--queries", type=float, default=100.0, help="best-queries a second")
    parser.add_argument("--url", help="an empty PostgreSQL database, rather than a new server")


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells a row for each operation."""
    with database(given.url) as url, tempfile.TemporaryDirectory() as state:
        os.environ["HVXTUNE_STATE_DIR"] = state
        found = measure(url, Path(state), given)
    report.remark(
        f"{JOBS} jobs and {found['stored_trials']:,} trials stored, {CONDUCTORS} conductors, "
        f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}; best-queries: "
        f"{found['best_queries_per_s']:,.0f} a second, "
        f"p99 of the worst second {found['best_query_p99_ms']:.1f} ms"
    )
    report.table(
        {"operation": "", "count": ",", "p50 ms": ".1f", "p99 ms": ".1f", "most ms": ".1f"}
    )
    for name in OPERATIONS:
        cuts = quantiles(found[name], n=100)
        report.row(name, len(found[name]), cuts[49], cuts[98], max(found[name]))
    for name in OPERATIONS:
        report.bar(f"p99 of {name} in ms", quantiles(found[name], n=100)[98], most=LIMIT_MS)
