"""Has the contained process read an upload, and turns each of its ends into an answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tuner.codegen.halide.uploads.description import PipelineDescription
from tuner.errors import ToolchainError, UserError

MODULE = "tuner.codegen.halide.uploads.reader"
EXIT_REFUSED = 3
"""Its exit status where Halide refuses the bytes; standard output then holds the reason."""
ANSWER_LIMIT_BYTES = 4 << 20
TIME_LIMIT_S = 20.0
"""Wall time: half a second to load Halide, some milliseconds for a pipeline."""
CPU_LIMIT_S = 10
MEMORY_LIMIT_BYTES = 512 << 20
"""On top of the loaded compiler; a pipeline of a hundred stages takes 10 MB."""
AT_ONCE = 2
_MOST_REASON_CHARACTERS = 300
_ACCEPTED = "what Halide 21's serialize_pipeline writes"
_NEXT_STEP = "write it anew with the version of Halide that `hvxtune doctor` shows"

_turns = threading.BoundedSemaphore(AT_ONCE)


def describe_pipeline(data: bytes) -> PipelineDescription:
    """What the serialized pipeline ``data`` consists of, found out in a contained process.

    ``UserError`` if it is none: empty, truncated, of another version, or made to do harm.
    ``ToolchainError`` if Halide itself cannot be loaded. Blocks for half a second; at most
    :data:`AT_ONCE` are read at once, others wait. Safe from several threads.
    """
    if not data:
        raise _refused("it is empty")
    with _turns, tempfile.TemporaryDirectory(prefix="hvxtune-upload-") as folder:
        status, answer = _read(data, Path(folder))
    if status == EXIT_REFUSED:
        raise _refused(_printable(answer))
    if status < 0:
        name = signal.Signals(-status).name
        raise _refused(f"Halide's reader died of it ({name})")
    if status != 0:
        raise ToolchainError(
            f"Halide cannot be loaded to read a pipeline: {_printable(answer)}",
            next_step="run `hvxtune doctor`, or `make setup` to install again",
        )
    try:
        return PipelineDescription.from_dict(json.loads(answer))
    except (ValueError, RecursionError) as error:
        raise _refused(_printable(str(error).encode())) from None


def _read(data: bytes, folder: Path) -> tuple[int, bytes]:
    """The exit status, negative for a signal, and what was answered.

    Into a file, not a pipe: its size is limited, however much the process writes.
    """
    environment = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
    limits = [str(folder), str(MEMORY_LIMIT_BYTES), str(CPU_LIMIT_S)]
    with tempfile.TemporaryFile() as answer:
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", MODULE, *limits],
                input=data,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                env=environment,
                timeout=TIME_LIMIT_S,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _refused(f"reading it took more than {TIME_LIMIT_S:g} s") from None
        answer.seek(0)
        return done.returncode, answer.read(ANSWER_LIMIT_BYTES)


def _refused(reason: str) -> UserError:
    return UserError(f"not a pipeline: {reason}", accepted=_ACCEPTED, next_step=_NEXT_STEP)


def _printable(answer: bytes) -> str:
    text = " ".join(answer.decode(errors="replace").split())
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown[:_MOST_REASON_CHARACTERS] or "no reason given"
