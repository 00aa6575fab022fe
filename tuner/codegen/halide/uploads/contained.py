"""Has the contained process read an upload, and turns each of its ends into an answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuner.codegen.halide.client import TEMPORARY_FOLDERS
from tuner.codegen.halide.uploads.analysis_form import Analysis
from tuner.codegen.halide.uploads.description import PipelineDescription
from tuner.codegen.toolchain import built
from tuner.errors import ToolchainError, UserError
from tuner.space.derivation.facts import PipelineFacts

MODULE = "tuner.codegen.halide.uploads.reader"
EXIT_REFUSED = 3
"""Its exit status where Halide refuses the bytes; standard output then holds the reason."""
EXIT_NOT_TUNABLE = 4
"""The same where the bytes are a pipeline, but not one that can be tuned."""
ANSWER_LIMIT_BYTES = 4 << 20
TIME_LIMIT_S = 20.0
"""Wall time: half a second to load Halide, some milliseconds for a pipeline."""
CPU_LIMIT_S = 10
MEMORY_LIMIT_BYTES = 512 << 20
"""On top of the loaded compiler; a pipeline of a hundred stages takes 10 MB."""
AT_ONCE = 2
_MOST_REASON_CHARACTERS = 300
_MOST_REFUSAL_BYTES = 4096
_ACCEPTED = "what Halide 21's serialize_pipeline writes"
_TUNABLE = "unscheduled pipelines of buffers of integers, with one output"
_NEXT_STEP = "write it anew with the version of Halide that `hvxtune doctor` shows"

T = TypeVar("T")

_turns = threading.BoundedSemaphore(AT_ONCE)


def describe_pipeline(data: bytes) -> PipelineDescription:
    """What the serialized pipeline ``data`` consists of, found out in a contained process.

    ``UserError`` if it is none: empty, truncated, of another version, or made to do harm.
    ``ToolchainError`` if Halide itself cannot be loaded. Blocks for half a second; at most
    :data:`AT_ONCE` are read at once, others wait. Safe from several threads.
    """
    if not data:
        raise _refused("it is empty")
    return _understood(_asked("describe", {}, data), PipelineDescription.from_dict)


def analyse_pipeline(data: bytes, sizes: Mapping[str, int]) -> Analysis:
    """What a space is derived from: the pipeline's facts with the extents ``sizes``, by the names
    of :attr:`Analysis.params`; those left out have their defaults.

    As :func:`describe_pipeline`; ``UserError`` also for pipelines that cannot be tuned, saying why.
    """
    return _understood(_asked("analyse", {"sizes": dict(sizes)}, data), Analysis.from_dict)


def execute_pipeline(
    data: bytes, facts: PipelineFacts, calls: Sequence[Sequence[NDArray[Any]]]
) -> list[NDArray[Any]]:
    """The output of the pipeline for the inputs of each of ``calls``, computed on this machine.

    Raises as :func:`describe_pipeline`, ``UserError`` also if the pipeline fails on these inputs
    or takes too long.
    """
    output = facts.output
    dtype, shape = np.dtype(output.dtype), output.extents[::-1]
    payload_bytes = prod(shape) * dtype.itemsize * len(calls)
    arguments = {
        "inputs": [
            {"bytes": len(data)},
            *(
                {"name": b.name, "dtype": b.dtype, "mins": b.mins, "extents": b.extents}
                for b in facts.inputs
            ),
        ],
        "extents": output.extents,
        "answer_bytes": payload_bytes + ANSWER_LIMIT_BYTES,
    }
    arrays = [np.ascontiguousarray(array).tobytes() for call in calls for array in call]
    answer = _asked("execute", arguments, b"".join([data, *arrays]), payload_bytes)
    if len(answer) != payload_bytes:
        raise _refused("it gives less than its output")
    flat = np.frombuffer(answer, dtype).reshape(len(calls), *shape)
    return [one.copy() for one in flat]


def _understood(answer: bytes, read: Callable[[Any], T]) -> T:
    try:
        return read(json.loads(answer))
    except (ValueError, RecursionError) as error:
        raise _refused(_printable(str(error).encode())) from None


def _asked(task: str, arguments: Mapping[str, Any], data: bytes, payload_bytes: int = 0) -> bytes:
    """The contained process's answer to a task."""
    with _turns, tempfile.TemporaryDirectory(prefix="hvxtune-upload-") as folder:
        status, answer = _read(task, arguments, data, payload_bytes, Path(folder))
    if status == EXIT_REFUSED:
        raise _refused(_printable(answer[:_MOST_REFUSAL_BYTES]))
    if status == EXIT_NOT_TUNABLE:
        raise UserError(
            f"this pipeline cannot be tuned: {_printable(answer[:_MOST_REFUSAL_BYTES])}",
            accepted=_TUNABLE,
            next_step="docs/pipelines.md tells what can be derived",
        )
    if status < 0:
        name = signal.Signals(-status).name
        raise _refused(f"Halide's reader died of it ({name})")
    if status != 0:
        raise ToolchainError(
            f"Halide cannot be loaded to read a pipeline: {_printable(answer[:2000])}",
            next_step="run `hvxtune doctor`, or `make setup` to install again",
        )
    return answer


def _read(
    task: str, arguments: Mapping[str, Any], data: bytes, payload_bytes: int, folder: Path
) -> tuple[int, bytes]:
    """The exit status, negative for a signal, and what was answered.

    Into a file, not a pipe: its size is limited, however much the process writes.
    """
    environment = {}
    if task != "describe":  # lowering makes folders
        environment["LD_PRELOAD"] = str(built(TEMPORARY_FOLDERS))
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    memory_bytes = MEMORY_LIMIT_BYTES + 4 * (len(data) + payload_bytes)
    limits = [str(folder), str(memory_bytes), str(CPU_LIMIT_S)]
    with tempfile.TemporaryFile() as answer:
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", MODULE, *limits, task, json.dumps(arguments)],
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
        return done.returncode, answer.read(ANSWER_LIMIT_BYTES + payload_bytes)


def _refused(reason: str) -> UserError:
    return UserError(f"not a pipeline: {reason}", accepted=_ACCEPTED, next_step=_NEXT_STEP)


def _printable(answer: bytes) -> str:
    text = " ".join(answer.decode(errors="replace").split())
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown[:_MOST_REASON_CHARACTERS] or "no reason given"
