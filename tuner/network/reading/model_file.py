"""Opens a model file of any format, told by its content."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from tuner.errors import UserError
from tuner.network.graph import Array, Graph, Node
from tuner.network.reading import (
    contained,
    limits,
    onnx_file,
    onnx_reader,
    tflite_file,
    tflite_reader,
    tflite_writing,
)

SUFFIXES = (".onnx", ".tflite")
"""Of the names that such files usually have."""


def read(path: Path, axes: Mapping[str, int] | None = None) -> Graph:
    """The network in ``path``, an ONNX or TFLite file; ``axes`` gives the extents of its dynamic
    axes by name, or as ``INPUT:POSITION``.

    The file is untrusted: a confined process reads it. Raises ``UserError`` in one line that names
    the node, tensor or axis, and ``ToolchainError`` without the package that reads the format.
    """
    return contained.read(_content(path), str(path), axes or {}, beside(path.parent))


def read_content(
    content: bytes,
    path: str,
    axes: Mapping[str, int] | None = None,
    external: onnx_file.ExternalData = onnx_file.no_external_data,
) -> Graph:
    """:func:`read` of ``content``, that of the file ``path``, in this process."""
    if tflite_file.is_tflite(content):
        return tflite_reader.read(content, path, axes)
    if path.endswith(".tflite"):
        raise UserError(
            f"{path} is not a TFLite model, or is truncated",
            accepted=f"a whole file with {tflite_file.IDENTIFIER.decode()} in bytes 4 to 7",
        )
    return onnx_reader.read(content, path, axes, external)


def run_host_node(graph: Graph, node: Node, operands: list[Array]) -> list[Array]:
    """The outputs of a node that stays on the host: what :func:`tuner.network.reference.run` takes
    as ``host``."""
    model = operands[-1].tobytes()
    inputs = dict(zip(node.attributes["inputs"], operands[:-1], strict=True))
    if tflite_file.is_tflite(model):
        return tflite_writing.run_alone(model, inputs, node.name)
    return onnx_file.run_alone(onnx_file.parsed(model), inputs)


def suffix_of_host_node(model: bytes) -> str:
    """The usual suffix of the file of a node that stays on the host."""
    return SUFFIXES[tflite_file.is_tflite(model)]


def _content(path: Path) -> bytes:
    try:
        with _opened(path, str(path)) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > limits.LARGEST_FILE_BYTES:
                raise UserError(
                    f"{path} has {size} bytes",
                    accepted=f"at most {limits.LARGEST_FILE_BYTES}",
                    next_step="keep large constants as external data beside it, which ONNX can",
                )
            return stream.read()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def _opened(path: Path, told: str) -> BinaryIO:
    """The file in ``path``, called ``told``. Pipes and devices, which could be waited for without
    end, are refused."""
    stream = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return stream
    stream.close()
    raise UserError(f"{told} is not a file", accepted="a regular file: no pipe, device or folder")


def beside(folder: Path) -> Callable[[str, int, int], bytes]:
    """Reads files within ``folder`` alone."""

    def read_part(location: str, offset: int, length: int) -> bytes:
        home = folder.resolve()
        try:
            path = (home / location).resolve()
            if not path.is_relative_to(home):
                raise UserError(
                    f"data in '{location}', outside the model's folder",
                    accepted="files within the folder of the model",
                )
            with _opened(path, location) as stream:
                stream.seek(offset)
                return stream.read(length)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UserError(f"cannot read {location}: {why}") from None

    return read_part
