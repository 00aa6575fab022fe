"""A pool of compile servers, and the outcomes of the ways in which their children end.

A compiler that ends by itself, however badly, is its candidate's doing. A compiler or a server
killed from outside (by the kernel short of memory, by an operator) says nothing about the
candidate, which is tried again on a fresh server, and not blamed if that happens each time.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from queue import LifoQueue
from typing import Any

from tuner.codegen.generator import CodeGenerator
from tuner.codegen.halide.children import PATIENCE
from tuner.codegen.halide.server import EXIT_INSTALLATION, MODULE
from tuner.codegen.requirements import reinstall
from tuner.codegen.toolchain import NativePart, built
from tuner.errors import CandidateError, OutOfTimeError, ToolchainError
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.records.outcome import Outcome

TIME_LIMIT_S = 20.0
"""Wall time of one step of a compilation (typical 0.2 to 0.8 s; some never end)."""
MEMORY_LIMIT_BYTES = 1 << 30
"""Address space on top of the loaded compiler (typical use 90 MB, up to 450 MB)."""
INCIDENT_ATTEMPTS = 3
"""How often a compilation is tried that is killed from outside each time."""
LEAST_ROOM_BYTES = 1 << 20
"""On the disk that compilers write to; an object with its listings has a tenth of that."""
_MAX_ERROR_CHARACTERS = 2000
_CRASHED = "PLEASE submit a bug report"
"""Printed by a compiler that caught its own crash."""
_SAYS_NOTHING = re.compile(r"HalideError:?( (Internal )?[Ee]rror:?)?[ .]*")
"""One of Halide's errors without a text, as many of them are."""
_log = logging.getLogger("hvxtune.compile")


class CompileServers:
    """Some compile servers, each for one thread at a time. They start when first needed."""

    def __init__(self, workers: int, time_limit_s: float, memory_limit_bytes: int) -> None:
        self.time_limit_s = time_limit_s
        self.processor_limit_s = math.inf
        """Of compilations that begin from now on, where it is less than ``time_limit_s``."""
        self.all = [CompileServer(time_limit_s, memory_limit_bytes) for _ in range(workers)]
        self._free: LifoQueue[CompileServer] = LifoQueue()
        for server in reversed(self.all):
            self._free.put(server)
        self._closing = threading.Lock()
        self._abandoned = threading.Event()

    @contextmanager
    def one(self) -> Iterator[CompileServer]:
        """A server of the caller's own; waits until one is free."""
        server = self._free.get()
        try:
            yield server
        finally:
            self._free.put(server)

    def held(self, server: CompileServer) -> CompileServers:
        """These for who has ``server`` already: :meth:`one` gives that one, and no other."""
        own = copy(self)
        own._free = LifoQueue()
        own._free.put(server)
        return own

    def close(self) -> None:
        """Ends all of them. Safe to call twice."""
        with self._closing:
            for server in self.all:
                server.close()

    def abandon(self) -> None:
        """Kills them with what they are compiling: :meth:`made` raises ``OutOfTimeError``."""
        self._abandoned.set()
        for server in self.all:
            server.kill()

    def made(
        self,
        server: CompileServer,
        request: Mapping[str, Any],
        kinds: Iterable[str],
        given: Mapping[str, bytes] | None = None,
    ) -> dict[str, bytes]:
        """The files ``kinds`` that ``server`` makes of ``request``, beside the files ``given``.

        Raises ``CandidateError``: ``timeout``, ``compiler_crash``, ``compile_error``, or
        ``device_error`` if it was killed from outside each time it was tried; and
        ``OutOfTimeError`` after :meth:`abandon`.
        """
        limit_s = min(self.time_limit_s, self.processor_limit_s)
        own = {**request, "processor_s": limit_s} if limit_s < self.time_limit_s else request
        how, number = self._ended(server, own, given or {})
        if how == "timeout" or (how, number) == ("signal", signal.SIGXCPU):
            why = ", many times as long as of any valid candidate" if own is not request else ""
            raise CandidateError(Outcome.TIMEOUT, f"compiling took more than {limit_s:.3g} s{why}")
        if how == "signal" or number != 0:
            _require_room(server.directory)
        if how == "signal":
            name = signal.Signals(number).name
            raise CandidateError(
                Outcome.COMPILER_CRASH, f"the compiler died of {name}: {_tail(server, 'log')}"
            )
        if number == EXIT_INSTALLATION:
            told = json.loads((server.directory / "error").read_bytes())
            raise ToolchainError(told["message"], next_step=told["next_step"])
        if number != 0:
            raise _refusal(server)
        try:
            return {kind: (server.directory / kind).read_bytes() for kind in kinds}
        except FileNotFoundError as error:
            _require_room(server.directory)
            missing = str(error.filename).rpartition("/")[2]
            raise CandidateError(
                Outcome.COMPILE_ERROR, f"the compiler ended without writing the {missing}"
            ) from None

    def _ended(
        self, server: CompileServer, request: Mapping[str, Any], given: Mapping[str, bytes]
    ) -> tuple[str, int]:
        """How a compilation ended that was not killed from outside."""
        incident = ""
        for attempt in range(1, INCIDENT_ATTEMPTS + 1):
            if self._abandoned.is_set():
                raise OutOfTimeError("abandoned before it was compiled")
            try:
                how, number = server.run(request, given)
                # Time-outs are told apart: this one was killed from outside.
                if (how, number) != ("signal", signal.SIGKILL):
                    return how, number
                incident = "the compiler was killed from outside (SIGKILL)"
            except (ServerDiedError, ToolchainError) as error:
                if self._abandoned.is_set():
                    raise OutOfTimeError("abandoned while it was compiled") from None
                if isinstance(error, ToolchainError):
                    raise
                incident = f"the compile server went down: {error}"
            server.stop()
            _log.warning("%s (attempt %d of %d)", incident, attempt, INCIDENT_ATTEMPTS)
        raise CandidateError(
            Outcome.DEVICE_ERROR,
            f"{incident}, {INCIDENT_ATTEMPTS} times: has this machine too little memory?",
        )


class ServerGenerator(CodeGenerator):
    """A code generator that compiles in compile servers: its own, or ``servers`` of another's.

    ``time_limit_s`` is for each step of a candidate, ``memory_limit_bytes`` on top of what the
    compiler takes by being loaded.
    """

    def __init__(
        self,
        workers: int = 1,
        *,
        time_limit_s: float = TIME_LIMIT_S,
        memory_limit_bytes: int = MEMORY_LIMIT_BYTES,
        servers: CompileServers | None = None,
    ) -> None:
        self._owns = servers is None
        self.servers = servers or CompileServers(workers, time_limit_s, memory_limit_bytes)

    def limit(self, processor_s: float) -> None:
        self.servers.processor_limit_s = processor_s

    def abandon(self) -> None:
        self.servers.abandon()

    def close(self) -> None:
        if self._owns:
            self.servers.close()


def _require_room(folder: Path) -> None:
    """``ToolchainError`` if a compiler may have failed because its disk is full, which is not the
    candidate's fault."""
    if shutil.disk_usage(folder).free < LEAST_ROOM_BYTES:
        raise ToolchainError(
            f"no space left on the disk that holds {folder}, where compilers write",
            next_step="free some, or set TMPDIR to a folder on another disk",
        )


def _refusal(server: CompileServer) -> CandidateError:
    """The message of a compiler that ended by itself, but badly."""
    if (server.directory / "error").exists():
        told = _tail(server, "error")
        if _SAYS_NOTHING.fullmatch(told):
            logged = _tail(server, "log", "")
            told = f"Halide refuses this schedule: {logged or 'it does not say why'}"
        return CandidateError(Outcome.COMPILE_ERROR, told)
    said = _tail(server, "log")
    crashed = _CRASHED in said
    return CandidateError(Outcome.COMPILER_CRASH if crashed else Outcome.COMPILE_ERROR, said)


def _tail(server: CompileServer, name: str, otherwise: str = "no message") -> str:
    """The end of what the child wrote to ``name``, in one line; ``otherwise`` for nothing."""
    try:
        text = (server.directory / name).read_text(errors="replace")
    except FileNotFoundError:
        text = ""
    words = " ".join(text.split())
    return words[-_MAX_ERROR_CHARACTERS:] or otherwise


_START_LIMIT_S = 60.0
_ANSWER_GRACE_S = 10.0
_LOG = "server.log"
VECTOR_COPIES = ("-disable-memcpy-idiom", "-disable-loop-idiom-memcpy")
"""Loops over vectors that copy stay loops. Two passes of LLVM make calls of ``memcpy`` of them, and
Hexagon's goes eight bytes at a time: ten times as long for rows that are copied tile by tile."""
NO_COPY_PROPAGATION = "-rdf-opt=0"
"""Hexagon's propagation of copies over a graph of register data flow stays off: it drops a copy of
a pair of vectors on a loop's exit (gaussian5x5_u8 by the generator ``hvx``, 384x11, contract
extent: wrong rows), and its time grows faster than the code does."""
LLVM_SWITCHES = (*VECTOR_COPIES, NO_COPY_PROPAGATION)
"""Arguments to LLVM that every code generator gives."""
LLVM_ARGUMENTS = " ".join(("-ifcvt-limit=0", "-disable-hexagon-amodeopt", *LLVM_SWITCHES))
"""Two more for what Halide makes. LLVM's If Converter aborts under register pressure on one HVX
candidate in ten ("Couldn't find the register class"), and without it the code is as fast. Hexagon's
choice of addressing modes builds such a graph, too. LLVM spent half of a compilation in the two; 72
schedules of 12 kernels take 0.999 of the cycles without them (single ones 0.93 to 1.12). Loops of
intrinsics need it: products of 256x256x256 bytes take 4 % more without."""
_ENVIRONMENT = {
    "HL_LLVM_ARGS": LLVM_ARGUMENTS,
    "PYTHONHASHSEED": "0",
}


_HERE = Path(__file__).parent
TEMPORARY_FOLDERS = NativePart("temporary-folders", "host", (_HERE / "temporary_folders.c",))
"""Keeps Halide from making folders in /tmp."""
COMPILE_MEMORY = NativePart(
    "compile-memory",
    "host",
    (_HERE / "compile_memory.c",),
    # Or the compiler makes calls of calloc of what calloc does itself.
    flags=("-fno-builtin-malloc", "-fno-builtin-calloc"),
)
"""Fixes the addresses of a compilation's memory."""


class ServerDiedError(Exception):
    """The compile server itself ended or stopped answering. It only forks and waits, so that no
    candidate makes it do so."""


class CompileServer:
    """One compile server process and its scratch directory. Not for several threads at once."""

    def __init__(self, time_limit_s: float, memory_limit_bytes: int) -> None:
        self._time_limit_s = time_limit_s
        self._memory_limit_bytes = memory_limit_bytes
        self._process: subprocess.Popen[bytes] | None = None
        scratch = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a tmpfs
        self.directory = Path(tempfile.mkdtemp(prefix="hvxtune-compile-", dir=scratch))

    def begin(self) -> None:
        """Starts the process, and does not wait until it has loaded Halide."""
        self.directory.mkdir(exist_ok=True)  # a server that ends takes it along
        environment = {
            **_ENVIRONMENT,
            "LD_PRELOAD": f"{built(COMPILE_MEMORY)}:{built(TEMPORARY_FOLDERS)}",
            "TMPDIR": str(self.directory),
        }
        for variable in ("PYTHONPATH", EXTRA_KERNELS_VARIABLE):
            if variable in os.environ:
                environment[variable] = os.environ[variable]
        with open(self.directory / _LOG, "wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    MODULE,
                    str(self._time_limit_s),
                    str(self.directory),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def start(self) -> None:
        """Starts the process if it does not run, and waits until it is ready. ``ToolchainError`` if
        it cannot."""
        if self._process is not None and self._process.poll() is None:
            return
        if not self._took_spare():
            self.begin()
        try:
            self._read_answer(_START_LIMIT_S)
        except ServerDiedError as error:
            log = (self.directory / _LOG).read_text(errors="replace").strip().splitlines()
            raise ToolchainError(
                f"the Halide compile server does not start: {log[-1] if log else error}",
                next_step=f"run `hvxtune doctor`; to install it again, {reinstall('halide')}",
            ) from None

    def _took_spare(self) -> bool:
        """Whether the process that :func:`begin_spare` started is this server's now."""
        with suppress(IndexError):  # or another thread took it
            spare = _spare.pop()
            if spare._time_limit_s == self._time_limit_s:
                shutil.rmtree(self.directory, ignore_errors=True)
                self.directory, self._process = spare.directory, spare._process
                return True
            spare.close()
        return False

    def run(self, request: Mapping[str, Any], given: Mapping[str, bytes]) -> tuple[str, int]:
        """Has the server do ``request``; the files end up in :attr:`directory`, where it finds
        those ``given``.

        Returns how the child ended, as :func:`tuner.codegen.halide.children.wait_for` tells it.
        Raises ``ServerDiedError`` if the server went down with it.
        """
        self.start()
        assert self._process is not None  # noqa: S101
        assert self._process.stdin is not None  # noqa: S101
        self._clean()
        for name, content in given.items():
            (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
            (self.directory / name).write_bytes(content)
        job = {**request, "memory_limit_bytes": self._memory_limit_bytes}
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.stop()
            raise ServerDiedError("it had ended before the job") from None
        answer = self._read_answer(PATIENCE * self._time_limit_s + _ANSWER_GRACE_S)
        return str(answer["how"]), int(answer["number"])

    def _read_answer(self, limit_s: float) -> dict[str, Any]:
        assert self._process is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        deadline = time.monotonic() + limit_s
        line = b""
        fd = self._process.stdout.fileno()
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(fd, 4096) if ready else b""
            if not piece:
                self.stop()
                raise ServerDiedError("it ended" if ready else f"no answer in {limit_s:.0f} s")
            line += piece
        return dict(json.loads(line))

    def _clean(self) -> None:
        for left in self.directory.iterdir():
            if left.is_dir() and not left.is_symlink():  # of a compilation that was ended
                shutil.rmtree(left)
            elif left.name != _LOG:
                left.unlink()

    def kill(self) -> None:
        """Ends the process, from another thread: what it is doing raises ``ServerDiedError``."""
        process = self._process
        if process is not None:
            process.kill()

    def stop(self) -> None:
        """Ends the process, and with it what it compiles."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Ends the process and removes the scratch directory."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


_spare: list[CompileServer] = []
"""At most one, that runs."""


def begin_spare() -> None:
    """Starts a process that the first :class:`CompileServer` of the usual limit takes.

    It loads Halide meanwhile, for most of a second. It ends with this process; a fault of the
    installation is told by who needs the server.
    """
    if _spare:
        return
    server = CompileServer(TIME_LIMIT_S, MEMORY_LIMIT_BYTES)
    try:
        server.begin()
        _spare.append(server)
    except (ToolchainError, OSError):
        server.close()
