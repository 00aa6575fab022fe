"""What a run came to: nothing if it went well, else the outcome the candidate has earned."""

from __future__ import annotations

import signal

from tuner.errors import CandidateError, DeviceError, ToolchainError
from tuner.measure.failed_call import failed_call
from tuner.measure.image import Image
from tuner.measure.poison import Bytes
from tuner.measure.qemu.launch import Ending
from tuner.measure.qemu.memory_map import CASE_BEGIN
from tuner.measure.qemu.program import Program
from tuner.measure.qemu.session import Results, State
from tuner.problem.target import Target
from tuner.records.outcome import Outcome

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
        raise CandidateError(Outcome.CUTOFF, f"stopped after {results.spent} cycles")
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
    begin, size = image.parts[number]
    where, told = program.place(results.address), image.cases.cases[number].name
    at = f"{results.touched:#x}"
    if 0 <= results.touched - CASE_BEGIN < size:
        at, told = image.place(begin + results.touched - CASE_BEGIN, number)
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
