"""One process of the simulator: a bundle in a folder, results in the same folder, nothing left."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tuner.errors import DeviceError
from tuner.measure.dsp.queue import (
    CallResult,
    DspState,
    QueuedRun,
    Results,
    bundle_files,
    images_of,
    output_name,
    read_records,
    results_of,
)
from tuner.measure.hexagon_sim.report import counters_in
from tuner.paths import cached

_POLL_S = 0.05
_START_S = 120.0
"""Until the driver's first record: booting QuRT takes the simulator seconds, on a busy machine
many."""
_MEMORY_BYTES = 1 << 35
"""Address space: a simulator maps the whole of what it simulates."""
_SAID_BYTES = 1 << 16
_TOLD_CHARACTERS = 400
_FOLDER = "hexagon-sim"
"""In the cache: a folder for each call under way, named after its process."""
QUEUE, RESULTS, SAID = "queue", "results", "said"
_PACKAGE_ROOT = Path(__file__).parents[3]


def remove_leftovers() -> None:
    """Removes the folders of processes that are gone."""
    for folder in cached(_FOLDER).iterdir():
        owner = folder.name.partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


class Form(Protocol):
    """How the simulator runs the driver: under QuRT (``qurt``), or by itself (``standalone``).

    ``most_runs`` is how many candidates a process may run; 0 for any number.
    """

    most_runs: int

    def fingerprint(self) -> Mapping[str, str]:
        """Names what runs the candidates."""

    def files(self) -> Mapping[str, bytes]:
        """Those that the process's folder needs beside the bundle."""

    def command(self, folder: Path) -> list[str]:
        """The command line that runs the driver in ``folder``."""

    def reads(self) -> str:
        """Paths that it has to read, colons between them."""

    def turn(self, is_closed: Callable[[], bool]) -> contextlib.AbstractContextManager[None]:
        """Held while a process runs; it may wait for others, until ``is_closed``."""

    def check(self, results: Results, said: str, status: int) -> None:
        """``DeviceError`` if what the simulator ``said`` cannot be."""


class SimulatorCalls:
    """Runs one process at a time; :meth:`close`, from another thread, ends it."""

    def __init__(self, form: Form, heap_bytes: int) -> None:
        """``heap_bytes`` is the memory that a candidate may allocate."""
        self._form = form
        self._heap_bytes = heap_bytes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def close(self) -> None:
        """Safe to call twice."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                _kill(self._process)

    def call(self, runs: Sequence[QueuedRun], task_s: float) -> CallResult:
        """Runs ``runs`` in one process; each may take ``task_s`` wall seconds.

        Raises ``DeviceError`` if the simulator failed as a whole.
        """
        home = cached(_FOLDER)
        with tempfile.TemporaryDirectory(dir=home, prefix=f"{os.getpid()}-") as made:
            folder = Path(made)
            nonce = secrets.token_bytes(16)
            try:
                for name, content in self._bundle(runs, nonce).items():
                    (folder / name).write_bytes(content)
                with self._form.turn(lambda: self._closed):
                    begin = time.monotonic()
                    status, timed_out = self._run(folder, len(runs), task_s)
                    run_s = time.monotonic() - begin
                return self._called(folder, runs, nonce, status, timed_out, run_s)
            except OSError as error:
                raise DeviceError(f"the simulator's folder: {error.strerror}") from None

    def _bundle(self, runs: Sequence[QueuedRun], nonce: bytes) -> dict[str, bytes]:
        images = images_of(runs)
        names = {image.digest: f"image{number}" for number, image in enumerate(images)}
        bundle = bundle_files(runs, lambda image: names[image.digest], nonce, self._heap_bytes)
        return {
            QUEUE: bundle.queue,
            **self._form.files(),
            **{names[image.digest]: image.before.tobytes() for image in images},
            **bundle.objects,
        }

    def _run(self, folder: Path, count: int, task_s: float) -> tuple[int, bool]:
        """The exit status, and whether the process was ended because a run took too long."""
        simulator = self._form.command(folder)
        limits = [str(int(_START_S + task_s * count) + 1), str(_MEMORY_BYTES)]
        launcher = [sys.executable, "-m", "tuner.measure.hexagon_sim.launch"]
        launcher += [str(os.getpid()), str(folder), *limits, self._form.reads()]
        with (folder / SAID).open("wb") as said:
            with self._lock:
                if self._closed:
                    raise DeviceError("the simulator was closed")
                process = self._process = subprocess.Popen(
                    [*launcher, *simulator],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    env={"PYTHONPATH": str(_PACKAGE_ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
                    start_new_session=True,
                )
            try:
                timed_out = self._watch(process, folder / RESULTS, task_s)
            finally:
                with self._lock:
                    _kill(process)
                    self._process = None
        if self._closed:
            raise DeviceError("the simulator was closed")
        return process.returncode, timed_out

    def _watch(self, process: subprocess.Popen[bytes], results: Path, task_s: float) -> bool:
        """Waits for the end. True if no record came for too long."""
        size, since, allowed = 0, time.monotonic(), _START_S + task_s
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
                return False
            now = results.stat().st_size if results.exists() else 0
            if now != size:
                size, since, allowed = now, time.monotonic(), task_s
            elif time.monotonic() - since > allowed:
                return True

    def _called(
        self,
        folder: Path,
        runs: Sequence[QueuedRun],
        nonce: bytes,
        status: int,
        timed_out: bool,
        run_s: float,
    ) -> CallResult:
        with (folder / SAID).open("rb") as file:
            file.seek(max(0, (folder / SAID).stat().st_size - _SAID_BYTES))
            said = file.read().decode(errors="replace")
        results = Results()
        if (folder / RESULTS).exists():
            data = (folder / RESULTS).read_bytes()
            results = results_of(read_records(data, nonce), len(runs))
        results.require_complete(status, len(runs), "the simulator")
        if not timed_out:
            self._form.check(results, said, status)
        sums, wrong = _kept(folder, runs, results)
        return CallResult(
            results=results,
            sums=sums,
            wrong=wrong,
            status=status,
            said=_printable(said),
            timed_out=timed_out,
            temperature_c=None,
            run_s=run_s,
            counters=counters_in(folder),
        )


def _kept(
    folder: Path, runs: Sequence[QueuedRun], results: Results
) -> tuple[dict[int, str], dict[int, bytes]]:
    """Sums of what candidates left in memory, and what differs from what is right."""
    sums, wrong = {}, {}
    for record in results.ended:
        file = folder / output_name(record.entry)
        if record.state not in (DspState.FINISHED, DspState.UNSTEADY) or not file.exists():
            continue
        content = file.read_bytes()
        image = runs[record.entry].image
        sums[record.entry] = hashlib.sha256(content).hexdigest()
        if sums[record.entry] != image.expected_digest:
            wrong[record.entry] = content[: image.case_bytes]
    return sums, wrong


def _printable(text: str) -> str:
    """The end of it, as one line without anything that moves a cursor."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(shown.split())[-_TOLD_CHARACTERS:]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process and all it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
