"""The simulator as a DSP that serves a network's image: started contained, its calls timed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from tuner.errors import CandidateError, DeviceError, ToolchainError
from tuner.measure.qemu.cycles import cycles_of, whole
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.model import find_model
from tuner.measure.qemu.session import Orders, Session, State
from tuner.measure.qemu.simulation import Program
from tuner.measure.qemu.simulator import find_simulator
from tuner.network.running.image.host import Host, HostError, Status, Transport, host_library
from tuner.problem.target import Target
from tuner.records.outcome import Outcome

_WALL_TIMES = 8
"""A whole network is one crossing, and others may use the processors, too."""
_SAID_BYTES = 4096
_EXIT_S = 10.0


class _Pipes(ctypes.Structure):
    """``struct fastrpc_stand_in``."""

    _fields_ = (
        ("to_dsp", ctypes.c_int),
        ("from_dsp", ctypes.c_int),
        ("limit_ms", ctypes.c_int64),
        ("deadline_ms", ctypes.c_int64),
    )


class CallCycles(NamedTuple):
    """Model cycles of a call, and those it would take if DDR had neither latency nor limits."""

    total: int
    core: int


class SimulatedDsp:
    """qemu-hexagon running ``program``, and the ``host`` that queues calls.

    The process is bounded as a measurement's is: no files, network or processes, ``timeout_s`` of
    processor time for all crossings, and :data:`_WALL_TIMES` as much wall time for each. Close it.
    Raises ``DeviceError`` or ``ToolchainError`` if it does not start.
    """

    host: Host

    def __init__(self, program: Program, target: Target, timeout_s: float) -> None:
        self._program, self._target, self._timeout_s = program, target, timeout_s
        self._model = find_model(target.arch)
        with contextlib.ExitStack() as stack:
            orders = Orders(self._model, target, cpu_seconds=int(timeout_s) + 1, serves=True)
            self._session = stack.enter_context(
                Session(replace(orders, candidate_bytes=program.code_bytes))
            )
            self._said = os.memfd_create("said", os.MFD_CLOEXEC)
            stack.callback(os.close, self._said)
            self._process = self._started()
            stack.callback(self._end)
            self._connect()
            self._stack = stack.pop_all()

    def _started(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [*find_simulator().start(self._session), "-0", "network", self._program.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                bufsize=0,
                env={},
                cwd="/",
                pass_fds=(self._session.descriptor, self._program.descriptor),
                start_new_session=True,
            )
        except OSError as error:
            raise DeviceError(f"the simulator could not be started: {error}") from None

    def _connect(self) -> None:
        library = host_library()
        self._pipes, transport = _Pipes(), Transport()
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        ends = self._process.stdin.fileno(), self._process.stdout.fileno()
        for end in ends:
            os.set_blocking(end, False)
        library.fastrpc_stand_in(
            *(ctypes.byref(self._pipes), *ends, _WALL_TIMES * self._timeout_s),
            ctypes.byref(transport),
        )
        try:
            self.host = Host(library, transport)
        except HostError as error:
            raise self.failure(error) from None

    def failure(self, error: HostError) -> CandidateError | DeviceError | ToolchainError:
        """The meaning of ``error`` of :attr:`host`: a function that failed, ran too long or did
        what it may not, or a simulator that is not there."""
        if error.status is not Status.NO_TRANSPORT:
            return CandidateError(Outcome.RUN_ERROR, f"the image answers {error}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)  # it closes its pipes before it has ended
        code = self._process.poll()
        results = self._session.results()
        said = os.pread(self._said, _SAID_BYTES, 0).decode(errors="replace").strip()
        where = self._program.place(results.address)
        if code is None or code == -signal.SIGXCPU:
            return CandidateError(
                Outcome.TIMEOUT, f"still ran after {self._timeout_s:g} s, in {where}"
            )
        if results.state is State.PREPARED:
            return ToolchainError(
                f"the simulator did not load its plugin: {said or 'it says nothing'}",
                next_step="run `hvxtune doctor`",
            )
        if results.state is State.TABLE_FULL:
            return CandidateError(
                Outcome.INFEASIBLE, f"has more code than the simulator can time, at {where}"
            )
        return CandidateError(
            Outcome.RUN_ERROR,
            f"ended ({results.state.name}, status {code}) in call {results.calls}, in {where}",
        )

    def cycles(self) -> list[CallCycles]:
        """Of each call so far, in caches as those before it left them."""
        results = self._session.results()
        found = []
        for call in range(1, results.calls + 1):
            own = results.segments[results.segments["call"] == call]
            events = Events(own["counts"].astype(np.float64), own["loop"].astype(np.int64))
            cycles = cycles_of(events, self._model.parameters, self._target.hvx_contexts)
            parts = (cycles.parts, cycles.core_parts)
            found.append(CallCycles(*(sum(whole(part).values()) for part in parts)))
        return found

    def _end(self) -> None:
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                end.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_EXIT_S)

    def close(self) -> None:
        """Ends the simulator."""
        self.host.close()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
