"""The process that opens one uploaded pipeline: bytes on standard input, JSON on standard output.

Run as ``python -m tuner.codegen.halide.uploads.reader FOLDER MEMORY_BYTES CPU_SECONDS``. Before
Halide sees a byte, the process gives up the network, other processes and files: it may open none
at all any more. A crash, a hang or an allocation too many ends only itself.
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

from tuner.codegen.halide.uploads.contained import ANSWER_LIMIT_BYTES, EXIT_REFUSED
from tuner.codegen.halide.uploads.description import MOST_INPUTS, MOST_STAGES

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_THREAD_STACK_BYTES = 64 << 20  # expressions nest, and Halide follows them by recursion


def _give_up(folder: Path, memory_bytes: int, cpu_s: int) -> None:
    """Limits of memory, time and answer; then no network, no processes, no files."""
    from tuner.codegen.confinement import confine

    with open("/proc/self/statm") as statm:
        mapped_bytes = int(statm.read().split()[0]) * resource.getpagesize()
    confine(folder)
    for limit, value in (
        (resource.RLIMIT_AS, mapped_bytes + memory_bytes + _THREAD_STACK_BYTES),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, ANSWER_LIMIT_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 0),  # what is open stays open
    ):
        resource.setrlimit(limit, (value, value))


def _describe(data: bytes) -> dict[str, Any]:
    import halide as hl

    parameters = hl.deserialize_parameters(data)
    pipeline = hl.deserialize_pipeline(data, parameters)
    wrappers = {f"{name}_im" for name in parameters}
    return {
        "stages": [_stage(f) for f in _functions(pipeline) if f.name() not in wrappers],
        "inputs": [_input(name, parameter) for name, parameter in parameters.items()],
        "outputs": [f.name() for f in pipeline.outputs()],
    }


def _functions(pipeline: Any) -> list[Any]:
    """All Funcs. Halide tells their number only by refusing the next index."""
    import halide as hl

    found: list[Any] = []
    while len(found) <= MOST_STAGES + MOST_INPUTS:
        try:
            found.append(pipeline.get_func(len(found)))
        except hl.HalideError:
            break
    return found


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


def _answer(data: bytes, status: list[int]) -> None:
    """Body of the thread; leaves the exit status in ``status``."""
    try:
        text, code = json.dumps(_describe(data)), 0
    except Exception as error:  # noqa: BLE001 - whatever the bytes make Halide say
        said = str(error).removeprefix("Error:").strip()
        text, code = (said or f"{type(error).__name__} without a word")[:2000], EXIT_REFUSED
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.buffer.flush()
    status.append(code)


def main() -> None:
    """Reads, gives up its rights, answers, and exits without Halide's clean-up."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    import halide

    assert halide  # noqa: S101 - loaded while files can be opened
    folder, memory_bytes, cpu_s = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    data = sys.stdin.buffer.read()
    _give_up(folder, memory_bytes, cpu_s)
    status: list[int] = []
    threading.stack_size(_THREAD_STACK_BYTES)
    thread = threading.Thread(target=_answer, args=(data, status))
    thread.start()
    thread.join()
    os._exit(status[0] if status else EXIT_REFUSED)


if __name__ == "__main__":
    main()
