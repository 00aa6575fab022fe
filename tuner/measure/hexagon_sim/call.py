"""One process of the simulator: a bundle in a folder, results in the same folder, nothing left."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
from tuner.measure.dsp.sdk import SimulatorParts
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
DRIVER, QUEUE, RESULTS, SAID = "driver.so", "queue", "results", "said"
_PACKAGE_ROOT = Path(__file__).parents[3]


def remove_leftovers() -> None:
    """Removes the folders of processes that are gone."""
    for folder in cached(_FOLDER).iterdir():
        owner = folder.name.partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class CallSettings:
    """What calls of one simulator have in common."""

    parts: SimulatorParts
    arch: str
    stack_bytes: int
    heap_bytes: int


class SimulatorCalls:
    """Runs one process at a time; :meth:`close`, from another thread, ends it."""

    def __init__(self, settings: CallSettings, driver: bytes) -> None:
        self._settings = settings
        self._driver = driver
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
                begin = time.monotonic()
                status, timed_out = self._run(folder, len(runs), task_s)
                run_s = time.monotonic() - begin
                return self._called(folder, runs, nonce, status, timed_out, run_s)
            except OSError as error:
                raise DeviceError(f"the simulator's folder: {error.strerror}") from None

    def _bundle(self, runs: Sequence[QueuedRun], nonce: bytes) -> dict[str, bytes]:
        images = images_of(runs)
        names = {image.digest: f"image{number}" for number, image in enumerate(images)}
        bundle = bundle_files(
            runs, lambda image: names[image.digest], nonce, self._settings.heap_bytes
        )
        return {
            DRIVER: self._driver,
            QUEUE: bundle.queue,
            **configuration(self._settings.parts),
            **{names[image.digest]: image.before.tobytes() for image in images},
            **bundle.objects,
        }

    def _run(self, folder: Path, count: int, task_s: float) -> tuple[int, bool]:
        """The exit status, and whether the process was ended because a run took too long."""
        settings = self._settings
        simulator = command_line(
            settings.parts, settings.arch, folder, DRIVER, ["."], stack_bytes=settings.stack_bytes
        )
        limits = [str(int(_START_S + task_s * count) + 1), str(_MEMORY_BYTES)]
        launcher = [sys.executable, "-m", "tuner.measure.hexagon_sim.launch"]
        launcher += [str(os.getpid()), str(folder), *limits, settings.parts.reads()]
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
        _require_plausible(results, said)
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
            counters=_counters(folder),
        )


def _counters(folder: Path) -> Mapping[str, int]:
    """Of the simulator's file; none if it wrote none, as one that was killed."""
    try:
        with (folder / PMU_FILE).open(encoding="utf-8", errors="replace") as file:
            return read_pmu_statistics(file.read(MOST_TEXT_BYTES)).counters
    except FileNotFoundError:
        return {}


def _require_plausible(results: Results, said: str) -> None:
    """The counter read while it runs cannot have gone further than the whole run."""
    whole = read_report(said).pcycles
    timed = sum(sum(record.samples) for record in results.ended)
    if results.complete and whole is not None and timed > whole:
        raise DeviceError(
            f"the simulator counted {timed} cycles in timed calls, but {whole} in the whole run"
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


COSIM_FILE, OSAM_FILE, PMU_FILE = "q6ss.cfg", "osam.cfg", "pmu_stats.txt"


def configuration(parts: SimulatorParts) -> dict[str, bytes]:
    """The files that describe the subsystem and the operating system, by name.

    Addresses and interrupt as in the SDK's own examples.
    """
    devices = (
        f"{parts.timer} --csr_base=0xFC900000 --irq_p=1 --freq=19200000 --cnttid=1\n"
        f"{parts.interrupts} 32 0xFC910000\n"
    )
    return {COSIM_FILE: devices.encode(), OSAM_FILE: f"{parts.os_model}\n".encode()}


def command_line(
    parts: SimulatorParts,
    arch: str,
    folder: Path,
    shared_object: str,
    arguments: Sequence[str],
    *,
    stack_bytes: int,
) -> list[str]:
    """Runs ``main`` of ``shared_object``, a file in ``folder``, with ``arguments``.

    ``--timing`` simulates caches and the bus; without it cycles are those of an ideal memory.
    ``--simulated_returnval`` makes the exit status tell of a failure; without it it is always 0.
    """
    return [
        str(parts.simulator),
        f"-m{arch}",
        *("--timing", "--quiet", "--simulated_returnval"),
        *("--usefs", str(folder)),
        *("--pmu_statsfile", str(folder / PMU_FILE)),
        *("--cosim_file", str(folder / COSIM_FILE)),
        *("--l2tcm_base", "0xd800"),
        *("--rtos", str(folder / OSAM_FILE)),
        str(parts.boot),
        "--",
        str(parts.loader),
        f"stack_size={stack_bytes:#x}",
        "--",
        shared_object,
        *arguments,
    ]


MOST_TEXT_BYTES = 1 << 20
_COUNT = r"(\d{1,19})(?!\d)"
_THREAD = re.compile(rf"^\s*T(\d{{1,3}}):\s+Insns=\s*{_COUNT}\s+Packets=\s*{_COUNT}\s*$", re.M)
_INSTRUCTIONS = re.compile(rf"^\s*Total:\s+Insns=\s*{_COUNT}", re.M)
_PCYCLES = re.compile(rf"Pcycles\s*[=:]\s*{_COUNT}")
_COUNTER = re.compile(
    rf"^\s*([A-Za-z_][\w .()/-]{{0,79}}?|0x[0-9a-fA-F]+)\s*[=:,\s]\s*{_COUNT}\s*$"
)


@dataclass(frozen=True)
class SimulatorReport:
    """Counts of a whole run, from boot to end; ``None`` where the simulator does not say.

    ``packets`` are summed over threads. ``pcycles`` are clock cycles of the core.
    """

    instructions: int | None
    packets: int | None
    pcycles: int | None


@dataclass(frozen=True)
class PmuStatistics:
    """Counters by the name or number they stand under, the last value of each."""

    counters: Mapping[str, int] = field(hash=False)


def read_report(text: str) -> SimulatorReport:
    """Reads the end of what the simulator printed. The last hit of each counts: what a candidate
    prints itself comes before."""
    tail = text[-MOST_TEXT_BYTES:]
    totals, cycles = _INSTRUCTIONS.findall(tail), _PCYCLES.findall(tail)
    threads = {int(number): int(packets) for number, _, packets in _THREAD.findall(tail)}
    return SimulatorReport(
        instructions=int(totals[-1]) if totals else None,
        packets=sum(threads.values()) if threads else None,
        pcycles=int(cycles[-1]) if cycles else None,
    )


def read_pmu_statistics(text: str) -> PmuStatistics:
    """Reads the file of ``--pmu_statsfile``; lines that are no counter are passed over."""
    counters: dict[str, int] = {}
    for line in text[-MOST_TEXT_BYTES:].splitlines():
        found = _COUNTER.match(line)
        if found is not None:
            counters[found[1].strip()] = int(found[2])
    return PmuStatistics(counters)
