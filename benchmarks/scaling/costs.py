"""The costs of a trial, measured on this machine: each part alone, on the real thing.

Processor time is that of the process concerned, so other load on the machine changes little.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TypeVar
from unittest import mock

import psutil

from db import open_store
from db.sql_store import SqlStore
from tests.db.postgres_server import databases
from tests.rig.stand_ins import StandInMeasurer, stand_in_artifact, standing_in_for
from tests.tuner.executor.cluster.started import started_cluster
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, pending, spec
from tuner.executor import EXECUTOR_VARIABLE
from tuner.executor.cluster.connection import Cluster
from tuner.executor.cluster.tasks import Answer
from tuner.jobs import tuning
from tuner.keeping.memory_store import MemoryStore
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.outcome import Outcome

CALLS = 600
T = TypeVar("T")

ROUNDS = 3
BATCH = 16
ROWS = {1: 1000, BATCH: 3200}
"""Trials to commit, by the size of a transaction."""
HEARTBEATS = 2000
"""The system counts processor time in hundredths of a second: fewer looks would count as none."""
TRIALS = 40
SEARCHED = 200


@dataclass(frozen=True)
class Costs:
    """Seconds. ``_cpu_s`` are of one processor."""

    search_cpu_s: float
    """A conductor's, per trial: ask, tell, the loop, the evaluation's bookkeeping."""
    call_cpu_s: float
    """A conductor's, per call handed to a cluster."""
    scheduler_cpu_s: float
    """A Dask scheduler's, per call."""
    commit_client_cpu_s: float
    """A conductor's, per transaction."""
    row_client_cpu_s: float
    """A conductor's, per trial in it."""
    commit_cpu_s: float
    """PostgreSQL's, per transaction."""
    row_cpu_s: float
    """PostgreSQL's, per trial in it: its result, its object's row, the row of the next."""
    commit_wait_s: float
    """The rest of a transaction's time: round trips and the disk."""
    heartbeat_cpu_s: float
    """PostgreSQL's, per look whether a job should stop; each job looks once a second."""
    object_cpu_s: float
    """PostgreSQL's, per trial, more if objects lie in the database too."""
    compile_s: float
    compile_cv: float
    """Its coefficient of variation: standard deviation by mean."""
    simulate_s: float
    """Link, simulate and verify."""
    simulate_cv: float


def measure_costs(tell: Callable[[str], None] = lambda _: None) -> Costs:
    """Takes about five minutes. Needs PostgreSQL, the extras ``dask`` and ``postgres``, and the
    compilers and simulator of ``make setup``."""
    tell("compiling and simulating")
    compiled, simulated = (_quickest(one) for one in zip(*_rounds(_trials), strict=True))
    tell("searching")
    search_s = min(_rounds(_search_s))
    tell("calling a cluster")
    call_s, scheduler_s = (min(one) for one in zip(*_rounds(_call_s), strict=True))
    tell("committing to PostgreSQL")
    with databases(durable=True) as make, tempfile.TemporaryDirectory() as folder:
        one, many, inside = (
            _least(_rounds(lambda: _commits(make(), place, batch)))  # noqa: B023 - called now
            for place, batch in (
                (f"folder:{folder}", 1),
                (f"folder:{folder}", BATCH),
                ("database:", BATCH),
            )
        )
    row_s = (many.server_s - one.server_s) / (BATCH - 1)
    row_client_s = (many.client_s - one.client_s) / (BATCH - 1)
    return Costs(
        search_cpu_s=search_s,
        call_cpu_s=call_s,
        scheduler_cpu_s=scheduler_s,
        commit_client_cpu_s=max(0.0, one.client_s - row_client_s),
        row_client_cpu_s=row_client_s,
        commit_cpu_s=max(0.0, one.server_s - row_s),
        row_cpu_s=row_s,
        commit_wait_s=max(0.0, one.wall_s - one.client_s - one.server_s),
        heartbeat_cpu_s=one.heartbeat_s,
        object_cpu_s=(inside.server_s - many.server_s) / BATCH,
        compile_s=statistics.mean(compiled),
        compile_cv=_variation(compiled),
        simulate_s=statistics.mean(simulated),
        simulate_cv=_variation(simulated),
    )


def _rounds(measure: Callable[[], T]) -> list[T]:
    """Other load on the machine only adds: of several rounds the least counts."""
    return [measure() for _ in range(ROUNDS)]


def _quickest(rounds: Sequence[list[float]]) -> list[float]:
    return min(rounds, key=statistics.mean)


def _least(rounds: Sequence[_Commits]) -> _Commits:
    return _Commits(*(min(column) for column in zip(*map(astuple, rounds), strict=True)))


def _variation(seconds: Sequence[float]) -> float:
    return statistics.stdev(seconds) / statistics.mean(seconds)


def _trials() -> tuple[list[float], list[float]]:
    """Seconds to compile, and to link, simulate and verify, of trials one at a time."""
    os.environ.pop(EXECUTOR_VARIABLE, None)
    options = {"contract": "static", "workers": 1}
    tuning.tune("add_u8", trials=3, **options)  # compilers and references are ready from here on
    store = MemoryStore()
    done = tuning.tune("add_u8", trials=TRIALS, seed=7, store=store, **options)
    timed = [
        trial.timings
        for trial in store.trials(done.job.id)
        if trial.outcome is Outcome.OK and trial.duplicate_of is None
    ]
    return [one.compile_s for one in timed], [one.link_s + one.run_s for one in timed]


def _search_s() -> float:
    """Of the default sampler, per trial, in a job that compiles and measures nothing."""
    stand_in = standing_in_for("halide")
    with (
        mock.patch("tuner.executor.executor.find_generator", return_value=stand_in),
        mock.patch("tuner.measure.find_measurer", return_value=StandInMeasurer),
    ):
        began = time.process_time()
        done = tuning.tune(
            "gemm_u8", contract="static", generator="halide", trials=SEARCHED, workers=16, seed=7
        )
        return (time.process_time() - began) / sum(done.outcomes.values())


def carried(data: bytes) -> Answer[bytes]:
    """What a worker runs: as much comes back as an object has bytes."""
    return Answer("a worker", data)


def _call_s() -> tuple[float, float]:
    """Processor seconds of a client and of a scheduler, per call."""
    data = artifact(1).object_bytes
    with tempfile.TemporaryDirectory() as folder, started_cluster(Path(folder)) as cluster:
        cluster.add("one", slots=4)
        cluster.until_there("one")
        where, never = Cluster(cluster.executor), threading.Event()
        needs = [where.measurer("qemu", "warm").resource(DEFAULT_TARGET)]

        def call(_number: int) -> None:
            where.wait(where.begin(carried, data, needs=needs), needs, never).result()

        with closing(where.client), ThreadPoolExecutor(8) as pool:
            list(pool.map(call, range(8)))  # connections are made
            began, client_began = (
                _used_s(psutil.Process(cluster.scheduler_pid)),
                time.process_time(),
            )
            list(pool.map(call, range(CALLS)))
            client_s = time.process_time() - client_began
            return client_s / CALLS, (
                _used_s(psutil.Process(cluster.scheduler_pid)) - began
            ) / CALLS


@dataclass(frozen=True)
class _Commits:
    """Seconds of a transaction, and of PostgreSQL for a look at the job."""

    wall_s: float
    client_s: float
    server_s: float
    heartbeat_s: float


def _commits(url: str, artifacts: str, batch: int) -> _Commits:
    """Transactions that end ``batch`` trials with their objects and begin as many."""
    server = next(one for one in psutil.Process().children() if one.name() == "postgres")
    turns = [range(first, first + batch) for first in range(0, ROWS[batch], batch)]
    for number in range((len(turns) + 1) * batch):
        pending(number)  # drawn now, not while the clock runs
    with closing(open_store(url, artifacts=artifacts)) as store:
        assert isinstance(store, SqlStore)  # noqa: S101
        job_id = store.create_job(spec(), SPACE, TOOLCHAIN).id
        token = store.claim(job_id)
        store.commit(job_id, token, started=[pending(number) for number in turns[0]])
        wall_s = client_s = 0.0
        server_began = _used_s(server)
        for turn in turns:
            made = [stand_in_artifact(str(number) * 200) for number in turn]
            began, client_began = time.perf_counter(), time.process_time()
            store.commit(
                job_id,
                token,
                finished=[ok(number, one) for number, one in zip(turn, made, strict=True)],
                started=[pending(number + batch) for number in turn],
                artifacts=made,
                spent_s=1.0,
            )
            wall_s += time.perf_counter() - began
            client_s += time.process_time() - client_began
        server_s = _used_s(server) - server_began
        began = _used_s(server)
        for _ in range(HEARTBEATS):
            store.heartbeat(job_id, token)
        heartbeat_s = (_used_s(server) - began) / HEARTBEATS
    count = len(turns)
    return _Commits(wall_s / count, client_s / count, server_s / count, heartbeat_s)


def _used_s(process: psutil.Process) -> float:
    """Processor seconds that ``process`` and those it started have used."""
    family = [process, *process.children(recursive=True)]
    used = [one.cpu_times() for one in family]
    return sum(one.user + one.system for one in used)
