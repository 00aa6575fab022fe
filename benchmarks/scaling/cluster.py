"""How well a cluster of this machine keeps its workers busy.

Real scheduler, real workers, as ``hvxtune cluster scheduler`` and ``hvxtune cluster worker`` start
them. First on calls that sleep, so that any number of workers fit on one machine and only
scheduling is measured; then on real trials beside the same trials in threads of this process.
"""

from __future__ import annotations

import math
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.tuner.executor.cluster.started import Started, started_cluster
from tuner.executor import EXECUTOR_VARIABLE
from tuner.executor.cluster.connection import Cluster
from tuner.executor.cluster.executor import AHEAD
from tuner.executor.cluster.tasks import Answer
from tuner.jobs import tuning
from tuner.problem.default_target import DEFAULT_TARGET

WORKERS = (1, 2, 4, 8, 16)
SLEEP_S = 0.5
CALLS_EACH = 30
TRIALS = 24


@dataclass(frozen=True)
class Scale:
    """``calls`` on so many ``workers``: ``took_s`` seconds of ``least_s`` that they sleep."""

    workers: int
    calls: int
    took_s: float
    least_s: float

    @property
    def efficiency(self) -> float:
        """Share of the time in which workers worked."""
        return self.least_s / self.took_s


@dataclass(frozen=True)
class Overhead:
    """Real trials of one worker: seconds for all in threads here, and on a cluster."""

    trials: int
    here_s: float
    cluster_s: float

    @property
    def per_trial_ms(self) -> float:
        """What a trial costs more on the cluster; negative if less."""
        return (self.cluster_s - self.here_s) / self.trials * 1e3


def slept(seconds: float) -> Answer[float]:
    """What a worker runs."""
    time.sleep(seconds)
    return Answer("a worker", seconds)


def measure_scale(executor: str, workers: int) -> Scale:
    """Calls for each of ``workers`` with one slot, as many in flight as a job would have."""
    calls = workers * CALLS_EACH
    where, never = Cluster(executor), threading.Event()
    needs = [where.measurer("qemu", "warm").resource(DEFAULT_TARGET)]

    def call(_number: int) -> None:
        where.wait(where.begin(slept, SLEEP_S, needs=needs), needs, never).result()

    with closing(where.client), ThreadPoolExecutor(math.ceil(workers * AHEAD)) as pool:
        list(pool.map(lambda _: call(0), range(workers)))  # connections are made
        began = time.perf_counter()
        list(pool.map(call, range(calls)))
        took_s = time.perf_counter() - began
    return Scale(workers, calls, took_s, calls * SLEEP_S / workers)


def measure_overhead(cluster: Started) -> Overhead:
    """The same random trials of a small kernel, twice."""

    def run() -> float:
        began = time.perf_counter()
        tuning.tune(
            "add_u8",
            contract="static",
            trials=TRIALS,
            workers=1,
            sampler="random",
            seed=7,
        )
        return time.perf_counter() - began

    os.environ.pop(EXECUTOR_VARIABLE, None)
    run()  # compilers and references are cached from here on
    here_s = run()
    os.environ[EXECUTOR_VARIABLE] = cluster.executor
    run()
    return Overhead(TRIALS, here_s, run())


def measure_scales() -> Iterator[Scale]:
    """:func:`measure_scale` for each of :data:`WORKERS`, on a cluster of its own."""
    for workers in WORKERS:
        with tempfile.TemporaryDirectory() as folder, started_cluster(Path(folder)) as cluster:
            names = [f"w{number}" for number in range(workers)]
            for name in names:
                cluster.add(name, slots=1)
            cluster.until_there(*names)
            yield measure_scale(cluster.executor, workers)
