"""One candidate under the simulator: linked, run on all cases, checked, its cycles worked out.

Harness and candidate become one program at addresses the plugin knows. qemu-hexagon runs it,
bounded and without environment, to its end or kill. A run ends well or with the outcome the
candidate has earned; the plugin's counts then become events, and events cycles by cause.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.codegen.toolchain import built
from tuner.errors import CandidateError, DeviceError, InternalError, ToolchainError
from tuner.measure.cases import Bytes, poison_descriptor
from tuner.measure.harness import LINKER_SCRIPT, linux_user_harness
from tuner.measure.harness.linking import (
    contents,
    linked_file,
    open_elf,
    path_of,
    relocatable,
    screen,
)
from tuner.measure.image import Image, failed_call
from tuner.measure.qemu.cycles import DEPENDENCY, cycles_of, whole
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.model import Rules, TimingModel
from tuner.measure.qemu.session import (
    CANDIDATE_BEGIN,
    CASE_BEGIN,
    Orders,
    Results,
    Session,
    State,
    packed_bounds,
)
from tuner.measure.qemu.simulator import Simulator, find_simulator, lacked_by
from tuner.problem.target import Target
from tuner.records.candidate import Artifact
from tuner.records.outcome import Outcome


@dataclass(frozen=True)
class Program:
    """A linked candidate: an executable in memory, and the size of the candidate's code, which
    begins at ``CANDIDATE_BEGIN``."""

    descriptor: int
    code_bytes: int

    @property
    def path(self) -> str:
        """Where a process that inherits the descriptor finds the executable."""
        return path_of(self.descriptor)

    def functions(self) -> dict[int, str]:
        """The functions of candidate and harness by their first address."""
        elf = open_elf(contents(self.descriptor))
        table = elf.get_section_by_name(".symtab") if elf else None
        return {
            symbol["st_value"]: symbol.name
            for symbol in (table.iter_symbols() if table else ())
            if symbol.name not in ("", "hvxtune_entry")
            and symbol["st_info"]["type"] in ("STT_FUNC", "STT_NOTYPE")
        }

    def place(self, address: int) -> str:
        """``symbol+offset`` of a code address, for messages."""
        functions = self.functions()
        start = max((start for start in functions if start <= address), default=None)
        if start is None:
            return f"{address:#x}"
        name = functions[start]
        return f"{name}+{address - start:#x}" if address > start else name


@contextlib.contextmanager
def linked(artifact: Artifact, arch: str) -> Iterator[Program]:
    """``artifact`` linked with the harness for ``arch`` (``v66``); gone when the context ends.

    Raises ``CandidateError`` with outcome ``infeasible`` for an object that is not Hexagon code,
    lacks its entry symbol, or needs functions the harness does not have.
    """
    relocatable(artifact.object_bytes)
    options = (
        *("-static", "-z", "max-page-size=65536"),
        "--orphan-handling=error",  # every section lies where program.ld says
        f"--script={LINKER_SCRIPT}",
    )
    with linked_file(artifact, built(linux_user_harness(arch)), options) as program:
        yield Program(program, _code_bytes(contents(program), artifact.symbol))


def _code_bytes(program: bytes, symbol: str) -> int:
    """Size of the candidate's code; refuses a ``symbol`` that lies elsewhere, as absolute ones."""
    elf = open_elf(program)
    code = elf.get_section_by_name(".text")
    size = int(code["sh_size"]) if code else 0
    entries = elf.get_section_by_name(".symtab").get_symbol_by_name("hvxtune_entry") or []
    if not any(0 <= entry["st_value"] - CANDIDATE_BEGIN < size for entry in entries):
        raise CandidateError(Outcome.INFEASIBLE, f"the entry symbol {symbol} is not a function")
    return size


_MESSAGE_BYTES = 4096
"""How much of what QEMU says about a failure is kept."""


@dataclass(frozen=True)
class Ending:
    """How the process ended. ``signal`` is 0 if it exited by itself with ``status``."""

    status: int
    signal: int
    timed_out: bool
    said: str


class ImageMemory:
    """A fresh copy of an image in a file in memory, for a program to map and work on."""

    def __init__(self, image: Image) -> None:
        self._bytes = image.before.size
        self.descriptor = os.memfd_create("image", os.MFD_CLOEXEC)
        try:
            if os.pwrite(self.descriptor, image.before.data, 0) != self._bytes:
                raise DeviceError(f"no memory for an image of {self._bytes} bytes")
        except OSError as error:
            os.close(self.descriptor)
            raise DeviceError(
                f"no memory for an image of {self._bytes} bytes: {error.strerror}"
            ) from None

    def contents(self) -> Bytes:
        """The image as the program left it."""
        return np.frombuffer(os.pread(self.descriptor, self._bytes, 0), np.uint8)

    def __enter__(self) -> ImageMemory:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self.descriptor)


class Runs:
    """The processes of one measurer, so that another thread can end them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._ended = False

    def end(self) -> None:
        """Kills those under way and all that are started from now on."""
        with self._lock:
            self._ended = True
            for group in self._groups:
                os.killpg(group, signal.SIGKILL)

    @contextlib.contextmanager
    def holding(self, group: int) -> Iterator[None]:
        """While it is held, nobody may wait for the leader of the process ``group``: its number
        would become another's. ``DeviceError`` if no more runs are wanted."""
        with self._lock:
            if self._ended:
                raise DeviceError("the simulator was closed")
            self._groups.add(group)
        try:
            yield
        finally:
            with self._lock:
                self._groups.discard(group)


def run(
    simulator: Simulator,
    program: Program,
    session: Session,
    image_descriptor: int,
    timeout_s: float,
    runs: Runs | None = None,
) -> Ending:
    """Runs ``program`` on the image behind ``image_descriptor`` until it ends or time is up.

    The process has an empty environment and a process group of its own, which is killed on
    time-out, on any exception here and by ``runs``. The plugin sets the resource limits and closes
    the sandbox before the first simulated instruction (plugin/sandbox.c).
    """
    complaints = os.memfd_create("complaints", os.MFD_CLOEXEC)
    try:
        process = subprocess.Popen(
            [
                *simulator.start(session),
                *("-0", "candidate"),
                program.path,
            ],
            stdin=image_descriptor,
            stdout=poison_descriptor(),  # mapped, and sealed
            stderr=complaints,
            env={},
            cwd="/",
            pass_fds=(session.descriptor, program.descriptor),
            start_new_session=True,
        )
        try:
            with (runs or Runs()).holding(process.pid):
                timed_out = not _ended_within(process.pid, timeout_s)
        finally:
            _kill_group(process)
        code = process.returncode
        return Ending(
            status=max(code, 0),
            signal=max(-code, 0),
            timed_out=timed_out or code == -signal.SIGXCPU,
            said=os.pread(complaints, _MESSAGE_BYTES, 0).decode(errors="replace").strip(),
        )
    except OSError as error:
        raise DeviceError(f"the simulator could not be started: {error}") from None
    finally:
        os.close(complaints)


def _ended_within(pid: int, seconds: float) -> bool:
    """Waits without polling: ``Popen.wait`` with a time limit sleeps up to 50 ms too long."""
    descriptor = os.pidfd_open(pid)
    try:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


_EXIT_GOOD, _EXIT_CALL_FAILED = 0, 1
"""Statuses of the harness: every call returned 0, or the last one did not."""

_SYSTEM_CALLS = {
    29: "ioctl",
    56: "openat",
    63: "read",
    64: "write",
    93: "exit",
    94: "exit_group",
    129: "kill",
    198: "socket",
    214: "brk",
    220: "clone",
    221: "execve",
    222: "mmap",
    226: "mprotect",
}
"""Names for messages, from the generic table Hexagon uses (Linux, asm-generic/unistd.h)."""


def judge(
    ending: Ending,
    results: Results,
    program: Program,
    image: Image,
    returned: Bytes,
    target: Target,
    timeout_s: float,
) -> None:
    """Returns if the run ended well and every byte of ``returned`` is right.

    Raises ``CandidateError`` with the outcome if the candidate is at fault, ``DeviceError`` or
    ``ToolchainError`` if this machine is.
    """
    if ending.timed_out:
        raise CandidateError(Outcome.TIMEOUT, f"still ran after {timeout_s:g} s")
    _refuse_stopped(results, program)
    _refuse_access(results, program, image)
    if results.state is not State.FINISHED:
        _explain_death(ending, results, program)
    if ending.status not in (_EXIT_GOOD, _EXIT_CALL_FAILED):
        raise DeviceError(f"the harness could not set up its memory (status {ending.status})")
    report = image.report(returned)
    if ending.status == _EXIT_CALL_FAILED:
        raise failed_call(report, image.cases, target)
    if results.calls != image.calls:
        raise CandidateError(
            Outcome.RUN_ERROR,
            f"ended after {results.calls} of {image.calls} calls",
        )
    difference = image.difference(returned, report.refused_cases)
    if difference is not None:
        raise CandidateError(Outcome.WRONG_OUTPUT, difference)


def _refuse_stopped(results: Results, program: Program) -> None:
    """Raises if the plugin ended the run."""
    if results.state is State.CUT_OFF:
        raise CandidateError(Outcome.CUTOFF, f"stopped after {results.spent:,} cycles")
    if results.state is State.RUNAWAY:
        raise CandidateError(
            Outcome.TIMEOUT, f"call {results.calls} ran far longer than the timed one"
        )
    if results.state is State.SYSTEM_CALL:
        name = _SYSTEM_CALLS.get(results.system_call, f"number {results.system_call}")
        where = program.place(results.address)
        raise CandidateError(Outcome.RUN_ERROR, f"made the system call {name} in {where}")
    if results.state is State.STRAY:
        where = program.place(results.address)
        raise CandidateError(Outcome.RUN_ERROR, f"ran outside of its calls, in {where}")
    if results.state is State.NOT_CODE:
        raise CandidateError(
            Outcome.RUN_ERROR, f"jumped to {results.address:#x}, where it has no code"
        )
    if results.state is State.UNSTEADY:
        raise CandidateError(
            Outcome.RUN_ERROR,
            f"took another way ({results.packets} packets) in its timed call than "
            "before on the same inputs: it keeps results between calls",
        )
    if results.state is State.HIDDEN:
        where = program.place(results.address)
        raise CandidateError(
            Outcome.INFEASIBLE,
            f"prefetches in {where}, which this build of the simulator gives no way to time",
        )
    if results.state in (State.TABLE_FULL, State.UNREADABLE):
        where = program.place(results.address)
        raise CandidateError(
            Outcome.INFEASIBLE, f"has more code than the simulator can time, at {where}"
        )


def _refuse_access(results: Results, program: Program, image: Image) -> None:
    """Raises if a watched call touched memory that it may not touch, or not so."""
    number, state = results.calls - 1, results.state
    if state not in (State.READ_OUTSIDE, State.WROTE_OUTSIDE, State.MISALIGNED):
        return
    where, told = program.place(results.address), image.cases.cases[number].name
    at = f"{results.touched:#x}"
    if 0 <= results.touched - CASE_BEGIN < image.view_bytes(number):
        at, told = image.place(results.touched - CASE_BEGIN, number)
    if state is State.WROTE_OUTSIDE:
        raise CandidateError(Outcome.WRONG_OUTPUT, f"wrote {at} in {where} ({told})")
    if state is State.READ_OUTSIDE:
        raise CandidateError(Outcome.RUN_ERROR, f"reads {at} in {where} ({told})")
    raise CandidateError(
        Outcome.RUN_ERROR,
        f"a scalar access of {results.touched_bytes} bytes in {where} is misaligned, at {at}: "
        f"hardware faults ({told})",
    )


def _explain_death(ending: Ending, results: Results, program: Program) -> None:
    """Raises for a process that ended before the harness did."""
    if results.state is State.PREPARED:
        raise ToolchainError(
            f"the simulator did not load its plugin: {ending.said or 'it says nothing'}",
            next_step="run `hvxtune doctor`",
        )
    if ending.signal in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        raise DeviceError(f"the simulator was killed by {_signal_name(ending.signal)}")
    where = program.place(results.address)
    if "target/hexagon" in ending.said:
        # QEMU's own assertion: it asserts on encodings it does not know.
        raise CandidateError(
            Outcome.INFEASIBLE,
            f"holds an instruction this simulator does not know, after {where}",
        )
    if results.calls == 0:
        raise DeviceError(f"the simulator failed before the first call: {ending.said}")
    how = _signal_name(ending.signal) if ending.signal else f"status {ending.status}"
    raise CandidateError(Outcome.RUN_ERROR, f"died with {how} in or after {where}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class Timing:
    """The timed call, in packet times of one hardware thread.

    ``breakdown`` adds up to ``cycles``; dependency stalls are in it under the class of the reader.
    ``core_cycles`` are what the call takes if DDR had neither latency nor limits.
    ``stalls_by_cause`` are the dependency stalls alone, of all threads.
    """

    events: Events
    stalls_by_cause: dict[str, int]
    breakdown: dict[str, int]
    core_cycles: int

    @property
    def cycles(self) -> int:
        return sum(self.breakdown.values())

    @property
    def packets(self) -> int:
        """Packets of all threads."""
        return self.events.count("packets")

    @property
    def ddr_bytes(self) -> int:
        """Bytes moved between DDR and L2, both ways."""
        return self.events.count("ddr_read_bytes") + self.events.count("ddr_written_bytes")


def timing_of(results: Results, model: TimingModel, contexts: int) -> Timing:
    """Works out a run whose timed call ended, on a target with ``contexts``.

    Raises ``InternalError`` if the tables do not add up to the plugin's own sums.
    """
    events = events_of(results)
    by_cause = _stalls_by_cause(results, model.rules)
    counted = (events.count("packets"), events.count("packets") + events.count("stalls"))
    if counted != (results.packets, results.cycles) or (
        sum(by_cause.values()) != events.count("stalls")
    ):
        raise InternalError(
            f"the plugin counted {results.packets} packets and {results.cycles} cycles, its tables "
            f"{counted[0]} and {counted[1]}, {sum(by_cause.values())} of them stalls"
        )
    cycles = cycles_of(events, model.parameters, contexts)
    return Timing(
        events,
        by_cause,
        breakdown=whole(_by_reader(cycles.parts, by_cause)),
        core_cycles=sum(whole(_by_reader(cycles.core_parts, by_cause)).values()),
    )


def _by_reader(parts: Mapping[str, float], stalls: Mapping[str, int]) -> dict[str, float]:
    """``parts`` with dependency stalls split by the class of the reader, as ``stalls`` are.

    The stalls are those of all threads; as much of each falls to the slowest one.
    """
    split = dict(parts)
    share = split.pop(DEPENDENCY) / max(sum(stalls.values()), 1)
    for cause, count in stalls.items():
        split[cause] = split.get(cause, 0.0) + count * share
    return split


def events_of(results: Results) -> Events:
    """The events of the timed call."""
    return Events(
        results.segments["counts"].astype(np.float64), results.segments["loop"].astype(np.int64)
    )


def _stalls_by_cause(results: Results, rules: Rules) -> dict[str, int]:
    """Each transition's details, one per packet of its block, lie in the order of transitions."""
    entered = results.transitions
    lengths: NDArray[Any] = results.blocks["packets"][entered["block"]]
    booked = np.repeat(entered["count"], lengths) * results.details["stalls"]
    sums = np.bincount(
        results.details["cause"], weights=booked.astype(np.float64), minlength=len(rules.causes)
    )
    return {name: int(sums[i]) for i, name in enumerate(rules.causes) if sums[i]}


@dataclass(frozen=True)
class Simulation:
    """A run that ended well.

    ``texts`` holds QEMU's disassembly of each row of ``results.packet_table`` if the orders asked
    to keep it, else nothing; ``functions`` then names functions by their first address.
    """

    timing: Timing
    results: Results
    texts: tuple[str, ...]
    functions: Mapping[int, str] = field(hash=False)
    code_bytes: int
    link_s: float
    run_s: float


def simulate(
    artifact: Artifact,
    image: Image,
    orders: Orders,
    timeout_s: float,
    runs: Runs | None = None,
) -> Simulation:
    """Runs ``artifact`` on the cases of ``image`` and checks every byte.

    ``image`` must have as many practice calls as ``orders`` expect. Raises ``CandidateError`` with
    the outcome the candidate has earned, ``DeviceError`` or ``ToolchainError`` as ``judge`` does;
    ``DeviceError`` also if ``runs`` are ended meanwhile.
    """
    screen(artifact.object_bytes, orders.target.arch, lacked_by(find_simulator().release))
    start = time.perf_counter()
    with (
        linked(artifact, orders.target.arch) as program,
        Session(
            replace(orders, candidate_bytes=program.code_bytes), packed_bounds(image)
        ) as session,
        ImageMemory(image) as memory,
    ):
        linked_at = time.perf_counter()
        ending = run(find_simulator(), program, session, memory.descriptor, timeout_s, runs)
        ended_at = time.perf_counter()
        results = session.results()
        judge(ending, results, program, image, memory.contents(), orders.target, timeout_s)
        timing = timing_of(results, orders.model, orders.target.hvx_contexts)
        if orders.timed_cycles and timing.cycles > orders.timed_cycles:
            # The plugin stops at a lower bound that leaves fractions of cycles out.
            raise CandidateError(Outcome.CUTOFF, f"stopped after {timing.cycles:,} cycles")
        return Simulation(
            timing=timing,
            results=results,
            texts=_texts(session, results) if orders.keep_text else (),
            functions=program.functions() if orders.keep_text else {},
            code_bytes=program.code_bytes,
            link_s=linked_at - start,
            run_s=ended_at - linked_at,
        )


def _texts(session: Session, results: Results) -> tuple[str, ...]:
    """Where the memory for texts was full, the offset stayed 0: the text of the first packet."""
    offsets = results.packet_table["text"]
    return tuple(session.text(int(at)) if at or not row else "" for row, at in enumerate(offsets))
