"""The client's end of :mod:`tuner.packages.python_process`: runs a package's Python, within limits.

Answers are bytes of known form; what such a process says about a failure is shown to people without
what could move a terminal's cursor, and believed no further.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tuner.codegen.confinement import environment
from tuner.kernels.kernel import Array
from tuner.packages.python_process import EXIT_REFUSED, MODULE
from tuner.problem.buffers import BufferSpec

TIME_LIMIT_S = 60.0
CPU_LIMIT_S = 30
MEMORY_LIMIT_BYTES = 1 << 30
_MOST_MADE_BYTES = 16 << 20
_MOST_CHARACTERS = 600


class PythonFailedError(Exception):
    """The code is at fault; the text says why, with the line."""


def reference_outputs(
    file: str,
    function: str,
    source: bytes,
    values: Mapping[str, int],
    specs: Sequence[BufferSpec],
    calls: Sequence[Sequence[Array]],
) -> list[list[Array]]:
    """The outputs of the NumPy function for the inputs of each call.

    ``values`` are parameters and scalars; ``specs`` are the buffers of a call in order. Raises
    ``PythonFailedError``.
    """
    forms = {
        role: [(one.name, one.dtype, one.shape) for one in specs if one.role == role]
        for role in ("input", "output")
    }
    request = {
        "task": "reference",
        "file": file,
        "function": function,
        "source_bytes": len(source),
        "values": dict(values),
        "calls": len(calls),
        "inputs": forms["input"],
        "outputs": forms["output"],
    }
    arrays = [np.ascontiguousarray(array).tobytes() for call in calls for array in call]
    wanted = sum(one.payload_bytes for one in specs if one.role == "output") * len(calls)
    answer = _answer(request, b"".join([source, *arrays]), wanted)
    if len(answer) != wanted:
        raise PythonFailedError("it gives less than its outputs")
    found, offset = [], 0
    for _ in calls:
        made = []
        for _name, dtype, shape in forms["output"]:
            flat = np.frombuffer(answer, dtype, prod(shape), offset)
            offset += flat.nbytes
            made.append(flat.reshape(shape).copy())
        found.append(made)
    return found


def made_by(file: str, function: str, source: bytes, values: Mapping[str, int | str]) -> bytes:
    """The result of the function of ``values``: ``c`` and C, or ``o`` and an object."""
    request = {"task": "make", "file": file, "function": function, "values": dict(values)}
    return _answer(request, source, _MOST_MADE_BYTES)


def scheduled(file: str, function: str, source: bytes, values: Mapping[str, int]) -> str:
    """The directives that the function of :class:`tuner.space.Steps` and ``values`` makes, as JSON
    that :func:`tuner.space.directives.read_directives` is to check."""
    request = {"task": "schedule", "file": file, "function": function, "values": dict(values)}
    return _answer(request, source, _MOST_MADE_BYTES).decode(errors="replace")


def rendered(file: str, template: bytes, values: Mapping[str, int | str]) -> bytes:
    """The template with ``values``, by Jinja."""
    request = {"task": "render", "file": file, "values": dict(values)}
    return _answer(request, template, _MOST_MADE_BYTES)


def _answer(request: Mapping[str, Any], data: bytes, answer_bytes: int) -> bytes:
    with (
        tempfile.TemporaryFile() as question,
        tempfile.TemporaryFile() as answer,
        tempfile.TemporaryDirectory(prefix="hvxtune-package-") as folder,
    ):
        limits = {
            "folder": folder,
            "memory_bytes": MEMORY_LIMIT_BYTES + 8 * (len(data) + answer_bytes),
            "cpu_s": CPU_LIMIT_S,
            "answer_bytes": answer_bytes + _MOST_MADE_BYTES,
        }
        question.write(json.dumps({**request, **limits}).encode() + b"\n" + data)
        question.seek(0)
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", MODULE],
                stdin=question,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                env=environment(),
                timeout=TIME_LIMIT_S,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PythonFailedError(f"it took more than {TIME_LIMIT_S:.0f} s") from None
        answer.seek(0)
        said = answer.read(answer_bytes + _MOST_MADE_BYTES)
    if done.returncode == 0:
        return said
    if done.returncode == EXIT_REFUSED:
        text = " ".join(said.decode(errors="replace").split())
        raise PythonFailedError("".join(c for c in text if c.isprintable())[:_MOST_CHARACTERS])
    raise PythonFailedError(
        f"it took more than {CPU_LIMIT_S} s of processor time, or memory that it may not have"
        f" (status {done.returncode})"
    )
