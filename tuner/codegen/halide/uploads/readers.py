"""The client's end of the reader processes: starts them when needed, replaces those that end."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from math import prod
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuner.codegen.confinement import environment
from tuner.codegen.fairness import FairPlaces, Ledger
from tuner.codegen.halide.children import PATIENCE
from tuner.codegen.halide.servers import TEMPORARY_FOLDERS
from tuner.codegen.halide.uploads.answers import (
    EXIT_NO_MEMORY,
    EXIT_NOT_TUNABLE,
    Analysis,
    PipelineDescription,
)
from tuner.codegen.requirements import reinstall
from tuner.codegen.toolchain import built
from tuner.errors import ToolchainError, UserError
from tuner.plain_text import plain
from tuner.program.loops import Program
from tuner.program.printing import printed
from tuner.space.derivation.facts import PipelineFacts

MODULE = "tuner.codegen.halide.uploads.reader"
AT_ONCE = 2
"""A user has at most one of them at a time."""
QUOTA_S = 120.0
"""Of their time for a user in :data:`QUOTA_WINDOW_S`: ten thousand usual readings, or twelve
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

        Raises ``ReaderEndedError`` if the reader itself is gone, ``ToolchainError`` if it
        cannot be started.
        """
        connection = self._connected()
        text = json.dumps({**request, "time_limit_s": limit_s}).encode()
        try:
            socket.send_fds(connection, [text], [question.fileno(), answer.fileno()])
            ended = self._received(PATIENCE * limit_s + _ANSWER_GRACE_S)
        except OSError as error:
            self.close()
            raise ReaderEndedError(str(error) or "it does not answer") from None
        return str(ended["how"]), int(ended["number"])

    def _connected(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folders = {"LD_PRELOAD": str(built(TEMPORARY_FOLDERS))}  # lowering makes folders
        self._socket = ours
        with theirs, tempfile.TemporaryFile() as said:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=environment() | folders,
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
                    next_step=f"run `hvxtune doctor`; to install it again, {reinstall('halide')}",
                ) from None
        return ours

    def _received(self, limit_s: float) -> dict[str, Any]:
        """The next message of the reader; ``OSError`` if it is gone or silent."""
        assert self._socket is not None  # noqa: S101
        self._socket.settimeout(limit_s)
        text = self._socket.recv(_ANSWER_BYTES)
        if not text:
            raise ConnectionResetError("it ended")
        return dict(json.loads(text))

    @property
    def process_id(self) -> int | None:
        """The id of the reader; ``None`` while it does not run."""
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


ANSWER_LIMIT_BYTES = 4 << 20
TIME_LIMIT_S = 10.0
"""Of processor time, as ``wait_for`` counts it; some milliseconds for a pipeline."""
REFERENCE_LIMIT_S = 30.0
"""The same for the reference of one call: a second for an image of two million pixels; reductions
of which each step needs the one before take about 0.1 ms a step."""
MEMORY_LIMIT_BYTES = 512 << 20
"""On top of the loaded compiler; a pipeline of a hundred stages takes 10 MB."""
_OUT_OF_TIME = (signal.SIGXCPU, signal.SIGKILL)
"""How the kernel ends what uses up its processor time."""
_DOING = {
    "describe": "read",
    "analyse": "analyse",
    "reference": "compute the reference of",
    "write": "write",
}
_ATTEMPTS = 2
"""A reader may have ended for being idle just when it was asked."""
_MOST_REASON_CHARACTERS = 300
_MOST_REFUSAL_BYTES = 4096
_ACCEPTED = "what Halide 21's serialize_pipeline writes"
_TUNABLE = (
    "unscheduled pipelines of integers of 8 to 32 bits, which call their own Funcs, their inputs "
    "and Halide's arithmetic"
)
_NEXT_STEP = "write it again with the version of Halide that `hvxtune doctor` shows"

T = TypeVar("T")


def describe_pipeline(data: bytes) -> PipelineDescription:
    """Describes the serialized pipeline ``data``, in a contained process.

    ``UserError`` if it is not a pipeline: empty, truncated, of another version, or made to do harm.
    ``ToolchainError`` if Halide itself cannot be loaded. Blocks for some milliseconds, half a
    second the first time; at most :data:`AT_ONCE` are read at once, others wait. Safe from several
    threads.
    """
    if not data:
        raise _refused("it is empty")
    return _understood(_answer_to("describe", {}, data), PipelineDescription.from_dict)


def analyse_pipeline(data: bytes, sizes: Mapping[str, int], *, is_open: bool = False) -> Analysis:
    """The facts that a space is derived from, with the extents ``sizes``, by the names of
     :attr:`Analysis.params`; those left out have their defaults. With ``is_open`` for code whose
    callers choose the extents: boundary conditions are stages then.

    As :func:`describe_pipeline`; ``UserError`` also for pipelines that cannot be tuned, saying why.
    """
    return _understood(
        _answer_to("analyse", {"sizes": dict(sizes), "is_open": is_open}, data), Analysis.from_dict
    )


def written_pipeline(program: Program, sizes: Mapping[str, int]) -> bytes:
    """``program``, for ``sizes`` and all others, as a serialized pipeline. Raises as
    :func:`analyse_pipeline`."""
    return _answer_to("write", {"sizes": dict(sizes)}, printed(program).encode())


def reference_outputs(
    data: bytes, facts: PipelineFacts, calls: Sequence[Sequence[NDArray[Any]]]
) -> list[list[NDArray[Any]]]:
    """The outputs of the pipeline for the inputs of each of ``calls``, of whatever sizes ``facts``
    says: its definitions are evaluated, nothing is compiled.

    Raises as :func:`describe_pipeline`, ``UserError`` also if the pipeline has no values for these
    inputs or takes too long.
    """
    payload_bytes = output_bytes(facts)
    arguments = {
        "pipeline_bytes": len(data),
        "inputs": [asdict(buffer) for buffer in facts.inputs],
        "scalars": {scalar.name: scalar.value for scalar in facts.scalars},
        "outputs": [asdict(buffer) for buffer in facts.outputs],
    }
    outputs = []
    for call in calls:
        question = b"".join([data, *(np.ascontiguousarray(array).tobytes() for array in call)])
        answer = _answer_to("reference", arguments, question, payload_bytes, REFERENCE_LIMIT_S)
        if len(answer) != payload_bytes:
            raise _refused("it gives less than its outputs")
        outputs += outputs_in(answer, facts)
    return outputs


def output_bytes(facts: PipelineFacts) -> int:
    """The size of the outputs of a call."""
    return sum(prod(b.extents) * np.dtype(b.dtype).itemsize for b in facts.outputs)


def outputs_in(answer: bytes, facts: PipelineFacts) -> list[list[NDArray[Any]]]:
    """The outputs of each call, out of the bytes of all."""
    position, calls = 0, []
    while position < len(answer):
        made = []
        for buffer in facts.outputs:
            flat = np.frombuffer(answer, buffer.dtype, prod(buffer.extents), position)
            position += flat.nbytes
            made.append(flat.reshape(buffer.extents[::-1]).copy())
        calls.append(made)
    return calls


def _understood(answer: bytes, read: Callable[[Any], T]) -> T:
    try:
        return read(json.loads(answer))
    except (ValueError, RecursionError) as error:
        raise _refused(_printable(str(error).encode())) from None


def _answer_to(
    task: str,
    arguments: Mapping[str, Any],
    data: bytes,
    payload_bytes: int = 0,
    time_limit_s: float = 0,
) -> bytes:
    """The contained process's answer to a task, within ``time_limit_s`` of processor time.

    In files, not pipes: their size is limited, however much the process writes.
    """
    limit_s = time_limit_s or TIME_LIMIT_S
    with (
        tempfile.TemporaryFile() as question,
        tempfile.TemporaryFile() as answer,
        tempfile.TemporaryDirectory(prefix="hvxtune-upload-") as folder,
    ):
        question.write(data)
        request = {
            "task": task,
            "arguments": arguments,
            "folder": folder,
            "memory_bytes": MEMORY_LIMIT_BYTES + 4 * (len(data) + payload_bytes),
            "answer_bytes": ANSWER_LIMIT_BYTES + payload_bytes,
        }
        how, number = _ended(request, question, answer, limit_s)
        answer.seek(0)
        said = answer.read(ANSWER_LIMIT_BYTES + payload_bytes)
    if how == "timeout" or (how == "signal" and number in _OUT_OF_TIME):
        raise UserError(
            f"this pipeline took more than {limit_s:g} s of processor time to {_DOING[task]}",
            accepted="pipelines that take less: fewer stages or steps of reductions, smaller sizes",
            next_step="make it smaller, or try again if this machine is busy",
        )
    if how == "signal":
        raise _refused(f"Halide's reader died of it ({signal.Signals(number).name})")
    if number == EXIT_NO_MEMORY:
        raise UserError(
            f"this pipeline took more than {MEMORY_LIMIT_BYTES >> 20} MiB to {_DOING[task]}",
            accepted="pipelines that take less: stages of fewer elements, smaller sizes",
            next_step="make it smaller",
        )
    if number == EXIT_NOT_TUNABLE:
        raise UserError(
            f"this pipeline cannot be tuned: {_printable(said[:_MOST_REFUSAL_BYTES])}",
            accepted=_TUNABLE,
            next_step="docs/pipelines.md tells what can be derived",
        )
    if number != 0 and not said:
        raise _no_reader(f"with status {number}, and said nothing")
    if number != 0:
        raise _refused(_printable(said[:_MOST_REFUSAL_BYTES]))
    return said


def _ended(
    request: Mapping[str, Any], question: IO[bytes], answer: IO[bytes], limit_s: float
) -> tuple[str, int]:
    """How the child that answers the request ended."""
    for _ in range(_ATTEMPTS):
        question.seek(0)
        answer.seek(0)
        answer.truncate()
        try:
            with readers().one() as reader:
                return reader.ask(request, question, answer, limit_s)
        except ReaderEndedError as error:
            reason = str(error)
    raise _no_reader(reason)


def _no_reader(reason: str) -> ToolchainError:
    return ToolchainError(
        f"the process that reads pipelines ended: {reason}",
        next_step="try again; if it stays so, see whether memory or processes are short here",
    )


def _refused(reason: str) -> UserError:
    return UserError(f"not a pipeline: {reason}", accepted=_ACCEPTED, next_step=_NEXT_STEP)


def _printable(answer: bytes) -> str:
    shown = plain(" ".join(answer.decode(errors="replace").split()))
    return shown[:_MOST_REASON_CHARACTERS] or "no reason given"
