"""The client's end of the reader processes: starts them when needed, replaces those that end."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import IO, Any

from tuner.codegen.halide.client import TEMPORARY_FOLDERS
from tuner.codegen.toolchain import built
from tuner.errors import ToolchainError
from tuner.fairness import FairPlaces, Ledger

MODULE = "tuner.codegen.halide.uploads.reader"
AT_ONCE = 2
"""A user has at most one of them at a time."""
QUOTA_S = 120.0
"""What a user may have of them in :data:`QUOTA_WINDOW_S`: some ten thousand usual readings, or six
that take as long as they may."""
QUOTA_WINDOW_S = 600.0
MOST_WAITING = 16
"""Requests of a user."""
PATIENCE_S = 120.0
_START_LIMIT_S = 60.0
_ANSWER_GRACE_S = 10.0
_END_LIMIT_S = 1.0
_ANSWER_BYTES = 4096


class ReaderEndedError(Exception):
    """The reader ended, or does not answer: before a request, for being idle; or with one."""


class Reader:
    """One reader process, started when first used. Not for several threads at once."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def ask(
        self, request: Mapping[str, Any], question: IO[bytes], answer: IO[bytes], limit_s: float
    ) -> tuple[str, int]:
        """Has ``question`` answered into the file ``answer``; returns how the child ended, as
        :func:`tuner.codegen.halide.children.wait_for` does.

        Raises ``ReaderEndedError`` if the reader itself is gone, ``ToolchainError`` if there is
        none to be had.
        """
        connection = self._connected()
        text = json.dumps({**request, "time_limit_s": limit_s}).encode()
        try:
            socket.send_fds(connection, [text], [question.fileno(), answer.fileno()])
            ended = self._received(limit_s + _ANSWER_GRACE_S)
        except OSError as error:
            self.close()
            raise ReaderEndedError(str(error) or "it does not answer") from None
        return str(ended["how"]), int(ended["number"])

    def _connected(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {"LD_PRELOAD": str(built(TEMPORARY_FOLDERS))}  # lowering makes folders
        if "PYTHONPATH" in os.environ:
            environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
        self._socket = ours
        with theirs, tempfile.TemporaryFile() as said:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=environment,
                start_new_session=True,
            )
            theirs.close()
            try:
                self._received(_START_LIMIT_S)
            except OSError:
                self.close()
                said.seek(0)
                lines = said.read().decode(errors="replace").strip().splitlines() or ["no answer"]
                raise ToolchainError(
                    f"Halide cannot be loaded to read a pipeline: {lines[-1][:300]}",
                    next_step="run `hvxtune doctor`, or `make setup` to install again",
                ) from None
        return ours

    def _received(self, limit_s: float) -> dict[str, Any]:
        """What the reader says next; ``OSError`` if it is gone or silent."""
        assert self._socket is not None  # noqa: S101
        self._socket.settimeout(limit_s)
        text = self._socket.recv(_ANSWER_BYTES)
        if not text:
            raise ConnectionResetError("it ended")
        return dict(json.loads(text))

    @property
    def process_id(self) -> int | None:
        """That of the reader; ``None`` while there is none."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """Ends the process, with whatever it is reading."""
        process, self._process = self._process, None
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()
        if process is not None:
            try:
                process.wait(timeout=_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Readers:
    """As many readers as there may be requests at once. Safe for several threads."""

    def __init__(self, count: int = AT_ONCE) -> None:
        self._all = [Reader() for _ in range(count)]
        self._places = FairPlaces(
            self._all,
            what="have pipelines read",
            ledger=Ledger(QUOTA_S, QUOTA_WINDOW_S),
            most_waiting=MOST_WAITING,
            patience_s=PATIENCE_S,
        )

    @contextmanager
    def one(self) -> Iterator[Reader]:
        """A reader that nobody else uses; waits for one, in turn among users."""
        with self._places.one() as reader:
            try:
                yield reader
            except BaseException:
                reader.close()  # its answer may still come
                raise

    def processes(self) -> list[int]:
        """The ids of those that have been started and not been given up."""
        return [r.process_id for r in self._all if r.process_id is not None]

    def close(self) -> None:
        """Ends all."""
        for reader in self._all:
            with contextlib.suppress(OSError):
                reader.close()


def readers() -> Readers:
    """Those of this process; a fork of it has its own, or answers would get mixed up."""
    return _of_process(os.getpid())


@cache
def _of_process(_pid: int) -> Readers:
    made = Readers()
    atexit.register(made.close)
    return made
