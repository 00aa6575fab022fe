"""The process that opens one uploaded pipeline: bytes on standard input, answer on standard output.

Run as ``python -m tuner.codegen.halide.uploads.reader FOLDER MEMORY_BYTES CPU_SECONDS [TASK
ARGUMENTS]``; the task is ``describe``, ``analyse`` or ``execute``, its arguments JSON. Before
Halide sees a byte, the process gives up the network, other processes and files: it may change
none but in FOLDER, and except to analyse a pipeline it may open none at all any more. A crash, a
hang or an allocation too many ends only itself.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from tuner.codegen.halide.uploads.contained import (
    ANSWER_LIMIT_BYTES,
    EXIT_NOT_TUNABLE,
    EXIT_REFUSED,
)
from tuner.codegen.halide.uploads.refusals import NotTunableError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_THREAD_STACK_BYTES = 64 << 20  # expressions nest, and Halide follows them by recursion
_ANALYSIS_FILES = 32
"""Halide lowers into a file, not into memory."""


def _give_up(
    folder: Path,
    memory_bytes: int,
    cpu_s: int,
    *,
    files: int = 0,
    answer_bytes: int = ANSWER_LIMIT_BYTES,
) -> None:
    """Limits of memory, time and answer; then no network, no processes, no files."""
    from tuner.codegen.confinement import confine

    with open("/proc/self/statm") as statm:
        mapped_bytes = int(statm.read().split()[0]) * resource.getpagesize()
    confine(folder)
    for limit, value in (
        (resource.RLIMIT_AS, mapped_bytes + memory_bytes + _THREAD_STACK_BYTES),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, answer_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, files),  # what is open stays open
    ):
        resource.setrlimit(limit, (value, value))


def _describe(data: bytes) -> dict[str, Any]:
    from tuner.codegen.halide.uploads.deserialized import deserialized

    opened = deserialized(data)
    wrappers = {f"{name}_im" for name in opened.inputs}
    return {
        "stages": [_stage(f) for name, f in opened.stages.items() if name not in wrappers],
        "inputs": [_input(name, entry.parameter) for name, entry in opened.inputs.items()],
        "outputs": [f.name() for f in opened.outputs],
    }


def _stage(func: Any) -> dict[str, Any]:
    return {
        "name": func.name(),
        "dimensions": [arg.name() for arg in func.args()],
        "types": [str(one) for one in func.types()],
        "updates": func.num_update_definitions(),
    }


def _input(name: str, parameter: Any) -> dict[str, Any]:
    is_buffer = parameter.is_buffer()
    return {
        "name": name,
        "type": str(parameter.type()),
        "dimensions": parameter.dimensions() if is_buffer else 0,
        "is_buffer": is_buffer,
    }


def _done(task: str, arguments: dict[str, Any], data: bytes) -> bytes:
    """The answer to a task."""
    if task == "analyse":
        from tuner.codegen.halide.uploads.analysis import analyse

        return json.dumps(analyse(data, arguments["sizes"])).encode()
    if task == "execute":
        from tuner.codegen.halide.uploads.execution import execute

        return execute(data, arguments["inputs"], arguments["extents"])
    return json.dumps(_describe(data)).encode(errors="replace")


def _answer(task: str, arguments: dict[str, Any], data: bytes, status: list[int]) -> None:
    """Body of the thread; leaves the exit status in ``status``."""
    try:
        answer, code = _done(task, arguments, data), 0
    except Exception as error:  # noqa: BLE001 - whatever the bytes make Halide say
        said = str(error).removeprefix("Error:").strip()
        said = said or f"{type(error).__name__} without a word"
        answer = said[:2000].encode(errors="replace")
        code = EXIT_NOT_TUNABLE if isinstance(error, NotTunableError) else EXIT_REFUSED
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    status.append(code)


def main() -> None:
    """Reads, gives up its rights, answers, and exits without Halide's clean-up."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    import halide

    assert halide  # noqa: S101 - loaded while files can be opened
    folder, memory_bytes, cpu_s = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    task = sys.argv[4] if len(sys.argv) > 4 else "describe"
    arguments = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
    _load(task)
    data = sys.stdin.buffer.read()
    os.chdir(folder)
    answer_bytes = arguments.get("answer_bytes", ANSWER_LIMIT_BYTES)
    files = _ANALYSIS_FILES if task == "analyse" else 0
    _give_up(folder, memory_bytes, cpu_s, files=files, answer_bytes=answer_bytes)
    status: list[int] = []
    threading.stack_size(_THREAD_STACK_BYTES)
    thread = threading.Thread(target=_answer, args=(task, arguments, data, status))
    thread.start()
    thread.join()
    os._exit(status[0] if status else EXIT_REFUSED)


def _load(task: str) -> None:
    """Imports what the task needs, while files can be opened."""
    from importlib import import_module

    modules = {"analyse": "analysis", "execute": "execution"}
    import_module(f"tuner.codegen.halide.uploads.{modules.get(task, 'deserialized')}")


if __name__ == "__main__":
    main()
