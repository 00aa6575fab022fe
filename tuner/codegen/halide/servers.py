"""A pool of compile servers, and what becomes of the ways in which their children end.

A compiler that ends by itself, however badly, is its candidate's doing. A compiler or a server
killed from outside (by the kernel short of memory, by an operator) tells nothing of the candidate:
such an incident is tried again on a fresh server, and blamed on nobody if it goes on.
"""

from __future__ import annotations

import json
import logging
import shutil
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import LifoQueue
from typing import Any

from tuner.codegen.generator import CodeGenerator
from tuner.codegen.halide.client import CompileServer, ServerDiedError
from tuner.codegen.halide.server import EXIT_INSTALLATION
from tuner.errors import CandidateError, OutOfTimeError, ToolchainError
from tuner.records.outcome import Outcome

TIME_LIMIT_S = 20.0
"""Wall time of one step of a compilation (typical 0.2 to 0.8 s; some hang for ever)."""
MEMORY_LIMIT_BYTES = 1 << 30
"""Address space on top of the loaded compiler (typical use 90 MB, up to 450 MB)."""
INCIDENT_ATTEMPTS = 3
"""How often a compilation is tried that is killed from outside each time."""
LEAST_ROOM_BYTES = 1 << 20
"""On the disk that compilers write to; an object with its listings has a tenth of that."""
_MAX_ERROR_CHARACTERS = 2000
_CRASHED = "PLEASE submit a bug report"
"""What a compiler that caught its own crash prints."""
_log = logging.getLogger("hvxtune.compile")


class CompileServers:
    """Some compile servers, each for one thread at a time. They start when first needed."""

    def __init__(self, workers: int, time_limit_s: float, memory_limit_bytes: int) -> None:
        self.time_limit_s = time_limit_s
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
        how, number = self._ended(server, request, given or {})
        if how == "timeout":
            raise CandidateError(
                Outcome.TIMEOUT, f"compiling took more than {self.time_limit_s:g} s"
            )
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
        """How a compilation ended that nobody outside put an end to."""
        incident = ""
        for attempt in range(1, INCIDENT_ATTEMPTS + 1):
            if self._abandoned.is_set():
                raise OutOfTimeError("abandoned before it was compiled")
            try:
                how, number = server.run(request, given)
                # Time-outs are told as such: this one was killed by somebody else.
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
    """What a compiler that ended by itself, but badly, had to say."""
    if (server.directory / "error").exists():
        return CandidateError(Outcome.COMPILE_ERROR, _tail(server, "error"))
    said = _tail(server, "log")
    crashed = _CRASHED in said
    return CandidateError(Outcome.COMPILER_CRASH if crashed else Outcome.COMPILE_ERROR, said)


def _tail(server: CompileServer, name: str) -> str:
    """The end of what the child wrote to ``name``, as one line."""
    try:
        text = (server.directory / name).read_text(errors="replace")
    except FileNotFoundError:
        text = ""
    words = " ".join(text.split())
    return words[-_MAX_ERROR_CHARACTERS:] or "no message"
