"""A scheduler and workers as processes, as users start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tuner.conformance.patience import PATIENCE_S, until
from tuner.executor.cluster.connection import Cluster
from tuner.paths import CACHE_DIR_VARIABLE, STATE_DIR_VARIABLE, cache_dir

COMMAND = [sys.executable, "-m", "service.cli"]
ROOT = Path(__file__).parents[4]


@dataclass
class Started:
    """A cluster. ``executor`` is its address, as ``HVXTUNE_EXECUTOR`` has it."""

    executor: str
    folder: Path
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    scheduler_pid: int = 0

    def add(
        self,
        name: str,
        *,
        slots: int = 2,
        options: tuple[str, ...] = (),
        more: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """A worker with a state directory of its own."""
        state = self.folder / name
        state.mkdir(exist_ok=True)
        place = self.executor.partition("://")[2]
        process = subprocess.Popen(
            [
                *(*COMMAND, "cluster", "worker", "--scheduler", place, "--slots", str(slots)),
                *("--name", name, *self.options, *options),
            ],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                CACHE_DIR_VARIABLE: str(cache_dir()),
                STATE_DIR_VARIABLE: str(state),
                **(more or {}),
            },
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.processes[name] = process
        return process

    def until_there(self, *names: str) -> None:
        """Waits until the scheduler knows all these workers."""
        seen = Cluster(self.executor)
        until(lambda: set(names) <= {name for name, _, _ in seen.workers()})
        seen.client.close()

    def kill(self, name: str) -> None:
        """``kill -9`` for a worker and all it started."""
        process = self.processes.pop(name)
        family = [psutil.Process(process.pid)]
        family += family[0].children(recursive=True)
        for one in family:
            with suppress(psutil.NoSuchProcess):  # a simulator may end by itself meanwhile
                one.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)


@contextmanager
def started_cluster(
    folder: Path, *names: str, scheduler_options: tuple[str, ...] = (), more: tuple[str, ...] = ()
) -> Iterator[Started]:
    """A scheduler on any port of this machine and workers called ``names``; all end with it."""
    with ExitStack() as stack:
        scheduler = subprocess.Popen(
            [*COMMAND, "cluster", "scheduler", "--port", "0", *scheduler_options],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        stack.callback(_end, scheduler)
        assert scheduler.stdout is not None
        executor = scheduler.stdout.readline().removeprefix("executor: ").strip()
        cluster = Started(executor, folder, options=more, scheduler_pid=scheduler.pid)
        stack.callback(lambda: [_end(one) for one in cluster.processes.values()])
        for name in names:
            cluster.add(name)
        cluster.until_there(*names)
        yield cluster


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(PATIENCE_S)
    if process.stdout is not None:
        process.stdout.close()
