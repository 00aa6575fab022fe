"""Prices what a trial takes of each part of a laboratory: where one of them is full.

Processor time is that of the process concerned, so other load on the machine changes little; it
only adds, so the least of three rounds counts. Takes about five minutes. Needs PostgreSQL, the
extras ``dask`` and ``postgres``, and the compilers and simulator of ``make setup``.
"""

from __future__ import annotations

import argparse
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

from benchmarks.harness import Report, tell
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

T = TypeVar("T")

ROUNDS = 3
CALLS = 600
BATCH = 16
ROWS = {1: 1000, BATCH: 3200}
"""Trials to commit, by the size of a transaction."""
TRIALS = 40
SEARCHED = 200


@dataclass(frozen=True)
class Part:
    """What a trial takes of one part of a laboratory: processor seconds."""

    name: str
    trial_s: float
    transaction_s: float = 0.0
    """More, for each transaction; jobs that wait commit several trials in one."""


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells a row for each part."""
    report.table(
        {
            "resource": "",
            "ms a trial": ".2f",
            "ms a transaction": ".2f",
            "full at trials/s, one a transaction": ",.0f",
            "many": ",.0f",
        }
    )
    for part in parts():
        report.row(
            *(part.name, 1e3 * part.trial_s, 1e3 * part.transaction_s),
            *(1 / (part.trial_s + part.transaction_s), 1 / part.trial_s),
        )


def parts() -> list[Part]:
    """Measures all parts."""
    tell("compiling")
    compile_s = min(_rounds(_compile_s))
    tell("searching")
    search_s = min(_rounds(_search_s))
    tell("calling a cluster")
    call_s, scheduler_s = (min(one) for one in zip(*_rounds(_call_s), strict=True))
    tell("committing to PostgreSQL")
    with databases(durable=True) as make:
        one, many = (_least(_rounds(lambda: _commits(make(), size))) for size in ROWS)  # noqa: B023
    row_s = (many.server_s - one.server_s) / (BATCH - 1)
    row_client_s = (many.client_s - one.client_s) / (BATCH - 1)
    return [
        Part("PostgreSQL", row_s, max(0.0, one.server_s - row_s)),
        Part("scheduler", 2 * scheduler_s),
        Part(
            "conductor",
            search_s + 2 * call_s + row_client_s,
            max(0.0, one.client_s - row_client_s),
        ),
        Part("compilers", compile_s),
    ]


def _rounds(measure: Callable[[], T]) -> list[T]:
    return [measure() for _ in range(ROUNDS)]


def _least(rounds: Sequence[_Commits]) -> _Commits:
    return _Commits(*(min(column) for column in zip(*map(astuple, rounds), strict=True)))


def _compile_s() -> float:
    """Seconds to compile a trial, one at a time."""
    os.environ.pop(EXECUTOR_VARIABLE, None)
    options = {"contract": "static", "workers": 1}
    tuning.tune("add_u8", trials=3, **options)  # compilers and references are ready from here on
    store = MemoryStore()
    done = tuning.tune("add_u8", trials=TRIALS, seed=7, store=store, **options)
    return statistics.mean(
        trial.timings.compile_s
        for trial in store.trials(done.job.id)
        if trial.outcome is Outcome.OK and trial.duplicate_of is None
    )


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
        scheduler = psutil.Process(cluster.scheduler_pid)

        def call(_number: int) -> None:
            where.wait(where.begin(carried, data, needs=needs), needs, never).result()

        with closing(where.client), ThreadPoolExecutor(8) as pool:
            list(pool.map(call, range(8)))  # connections are made
            began, client_began = _used_s(scheduler), time.process_time()
            list(pool.map(call, range(CALLS)))
            client_s = time.process_time() - client_began
            return client_s / CALLS, (_used_s(scheduler) - began) / CALLS


@dataclass(frozen=True)
class _Commits:
    """Processor seconds of a transaction."""

    client_s: float
    server_s: float


def _commits(url: str, batch: int) -> _Commits:
    """Transactions that end ``batch`` trials with their objects and begin as many."""
    server = next(one for one in psutil.Process().children() if one.name() == "postgres")
    turns = [range(first, first + batch) for first in range(0, ROWS[batch], batch)]
    for number in range((len(turns) + 1) * batch):
        pending(number)  # drawn now, not while the clock runs
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_store(url, artifacts=f"folder:{folder}")) as store,
    ):
        assert isinstance(store, SqlStore)  # noqa: S101
        job_id = store.create_job(spec(), SPACE, TOOLCHAIN).id
        token = store.claim(job_id)
        store.commit(job_id, token, started=[pending(number) for number in turns[0]])
        client_s, server_began = 0.0, _used_s(server)
        for turn in turns:
            made = [stand_in_artifact(str(number) * 200) for number in turn]
            client_began = time.process_time()
            store.commit(
                job_id,
                token,
                finished=[ok(number, one) for number, one in zip(turn, made, strict=True)],
                started=[pending(number + batch) for number in turn],
                artifacts=made,
                spent_s=1.0,
            )
            client_s += time.process_time() - client_began
        count = len(turns)
        return _Commits(client_s / count, (_used_s(server) - server_began) / count)


def _used_s(process: psutil.Process) -> float:
    """Processor seconds that ``process`` and those it started have used."""
    family = [process, *process.children(recursive=True)]
    used = [one.cpu_times() for one in family]
    return sum(one.user + one.system for one in used)
