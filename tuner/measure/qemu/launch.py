"""Runs a linked candidate under qemu-hexagon: bounded, without environment, to its end or kill."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tuner.errors import DeviceError
from tuner.measure.image import Image
from tuner.measure.poison import Bytes, poison_descriptor
from tuner.measure.qemu.program import Program
from tuner.measure.qemu.session import Session
from tuner.measure.qemu.simulator import Simulator

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
