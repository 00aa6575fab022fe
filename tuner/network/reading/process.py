"""Reads a model in a process that has nothing but its question, memory and a clock.

Run as ``python -P -m tuner.network.reading.process`` by ``contained``. It loads the packages that
read models, takes the model's bytes from standard input, gives up everything
(:data:`tuner.codegen.confinement.READER`: no files, network, processes), and only then looks at
them: protobuf and ONNX's shape inference are native code, and nobody knows what crafted bytes may
turn it into.

The question is a line of JSON, then the model. The answer is a line of JSON, then the constants of
the graph, one behind the other. Before it, the process may ask for parts of files beside the model,
a line for each, which come as a line that says how many bytes follow, and those.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tuner.codegen.confinement import READER, Limits, confine
from tuner.errors import HvxtuneError, ToolchainError, UserError
from tuner.network.reading import model_file, onnx_file, tflite_file


def main() -> None:
    """Answers one question."""
    request = json.loads(sys.stdin.buffer.readline())
    content = sys.stdin.buffer.read(request["content_bytes"])
    _load_packages(content)
    os.chdir(request["folder"])
    confine(READER, Path("."), Limits(request["memory_bytes"], request["cpu_s"], 0)).seal()
    try:
        graph = model_file.read_content(content, request["path"], request["axes"], _external)
        arrays = graph.data
        answer: dict[str, Any] = {
            "graph": graph.as_dict(),
            "arrays": [[key, one.dtype.name, one.shape] for key, one in arrays.items()],
        }
    except HvxtuneError as error:
        answer, arrays = {"error": error.as_dict()}, {}
    _say(answer)
    for array in arrays.values():
        sys.stdout.buffer.write(array.tobytes())
    sys.stdout.buffer.flush()
    os._exit(0)


def _load_packages(content: bytes) -> None:
    """While files can be opened. Without a package, reading says so."""
    try:
        if tflite_file.is_tflite(content):
            tflite_file.load_package()
        else:
            onnx_file.load_package()
    except ToolchainError:
        pass


def _say(line: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")


def _external(location: str, offset: int, length: int) -> bytes:
    _say({"external": [location, offset, length]})
    sys.stdout.buffer.flush()
    answer = json.loads(sys.stdin.buffer.readline())
    if "error" in answer:
        raise UserError(answer["error"]["message"], accepted=answer["error"]["accepted"])
    return sys.stdin.buffer.read(answer["bytes"])


if __name__ == "__main__":
    main()
