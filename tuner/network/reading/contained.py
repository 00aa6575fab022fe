"""The client's end of :mod:`tuner.network.reading.process`: reads a model, within limits.

What comes back is a graph of known form, whose constants and nodes are checked again here; what the
process says about a failure is shown to people without what could move a terminal's cursor.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from math import prod
from typing import IO, Any

import numpy as np

from tuner.codegen.confinement import environment
from tuner.errors import ToolchainError, UserError
from tuner.network.graph import DTYPES, Array, Graph, data_digest
from tuner.network.reading import limits
from tuner.network.reading.onnx_file import ExternalData
from tuner.plain_text import plain

TIME_LIMIT_S = 600.0
CPU_LIMIT_S = 300
MEMORY_LIMIT_BYTES = 4 << 30
"""Besides several times the model."""
_COPIES = 6
_MOST_LINE_BYTES = 1 << 28
_MODULE = "tuner.network.reading.process"


def read(content: bytes, path: str, axes: Mapping[str, int], external: ExternalData) -> Graph:
    """The network in ``content``, that of the file ``path``, as
    :func:`tuner.network.reading.model_file.read_content` gives it.

    Raises what that raises, and ``UserError`` if the process that reads ends without an answer.
    """
    with (
        tempfile.TemporaryDirectory(prefix="hvxtune-model-") as folder,
        subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            start_new_session=True,
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - pipes
        timer = threading.Timer(TIME_LIMIT_S, process.kill)
        timer.start()
        try:
            request = {
                "path": path,
                "axes": dict(axes),
                "folder": folder,
                "content_bytes": len(content),
                "memory_bytes": MEMORY_LIMIT_BYTES + _COPIES * len(content),
                "cpu_s": CPU_LIMIT_S,
            }
            conversation = _Conversation(process.stdin, process.stdout, path)
            return conversation.graph(request, content, external)
        finally:
            timer.cancel()
            process.kill()
            with suppress(BrokenPipeError):  # what it never read
                process.stdin.close()


class _EndedError(Exception):
    """The process ended before its answer did, or does not answer in the known form."""


class _Conversation:
    def __init__(self, to: IO[bytes], from_: IO[bytes], path: str) -> None:
        self._to, self._from, self._path = to, from_, path

    def graph(self, request: Mapping[str, Any], content: bytes, external: ExternalData) -> Graph:
        try:
            self._tell(request, content)
            answer = self._line()
            while "external" in answer:
                self._give(answer["external"], external)
                answer = self._line()
            if "error" in answer:
                raise _error(answer["error"])
            arrays = {key: self._array(*form) for key, *form in answer["arrays"]}
            if any(data_digest(array) != key for key, array in arrays.items()):
                raise _EndedError
            return Graph.from_dict(answer["graph"], arrays)
        except (_EndedError, KeyError, TypeError, ValueError, AttributeError, BrokenPipeError):
            raise UserError(
                f"{self._path} cannot be read: the process that reads it ended early",
                accepted=f"models that take at most {CPU_LIMIT_S} s and "
                f"{MEMORY_LIMIT_BYTES >> 30} GiB to read, besides {_COPIES} times their size",
                next_step="see that onnx.checker or TFLite's interpreter takes the file",
            ) from None

    def _tell(self, line: Mapping[str, Any], content: bytes = b"") -> None:
        self._to.write(json.dumps(line).encode() + b"\n")
        self._to.write(content)
        self._to.flush()

    def _line(self) -> dict[str, Any]:
        line = self._from.readline(_MOST_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise _EndedError
        made: dict[str, Any] = json.loads(line)
        return made

    def _give(self, wanted: Any, external: ExternalData) -> None:
        location, offset, length = wanted
        if not 0 <= int(length) <= limits.LARGEST_FILE_BYTES:
            raise _EndedError
        try:
            content = external(str(location), int(offset), int(length))
        except UserError as error:
            self._tell({"error": error.as_dict()})
            return
        self._tell({"bytes": len(content)}, content)

    def _array(self, dtype: str, shape: list[int]) -> Array:
        if dtype not in DTYPES or min(shape, default=0) < 0:
            raise _EndedError
        size = prod(shape) * np.dtype(dtype).itemsize
        if size > limits.LARGEST_FILE_BYTES:
            raise _EndedError
        content = self._from.read(size)
        if len(content) < size:
            raise _EndedError
        return np.frombuffer(content, dtype).reshape(shape)


def _error(said: Mapping[str, str]) -> UserError | ToolchainError:
    kinds = {ToolchainError.kind: ToolchainError}
    parts = {name: plain(str(said[name])) for name in ("message", "accepted", "next_step")}
    return kinds.get(said["kind"], UserError)(
        parts["message"], accepted=parts["accepted"], next_step=parts["next_step"]
    )
