"""The process that opens uploaded pipelines, and never more than one in the same process.

Run as ``python -m tuner.codegen.halide.uploads.reader``, with a socket to its client as standard
input (``contained``). It holds Halide loaded, which takes most of the time, and forks a child for
each request: the parent sees names and limits that the client made, never a byte of a pipeline,
so nothing of one is left for the next. Before Halide sees a byte, the child is confined
(``tuner.codegen.confinement``): to analyse a pipeline it has the files of its request's folder,
otherwise none, and it can start neither processes nor threads. A crash, a hang or an allocation too
many ends only itself. The parent ends with its client, and when it had nothing to do for a while.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import select
import signal
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

from tuner.codegen.confinement import (
    COMPILER,
    READER,
    Confinement,
    Limits,
    Role,
    confine,
)
from tuner.codegen.halide.children import PATIENCE, PR_SET_PDEATHSIG, wait_for
from tuner.codegen.halide.uploads.answers import (
    EXIT_NO_MEMORY,
    EXIT_NOT_TUNABLE,
    EXIT_REFUSED,
    NotTunableError,
)
from tuner.program.bounds import bounded
from tuner.program.expressions import ProgramError
from tuner.program.parsing import parsed

_THREAD_STACK_BYTES = 64 << 20  # expressions nest, and Halide follows them by recursion
_IDLE_S = 600.0
_REQUEST_BYTES = 1 << 16


_ROLES = {"analyse": COMPILER}
"""Halide lowers into a file, not into memory: to analyse takes files of its own. All other tasks
are a reader's."""


def give_up(
    role: Role, folder: Path, memory_bytes: int, cpu_s: int, *, answer_bytes: int
) -> Confinement:
    """Limits of memory, time and answer; no network, no processes, no files but the role's."""
    memory_bytes += _THREAD_STACK_BYTES
    return confine(role, folder, Limits(memory_bytes, cpu_s, answer_bytes))


def answer_to(task: str, arguments: dict[str, Any], data: bytes) -> bytes:
    """The answer to a task: ``describe``, ``analyse``, ``reference`` or ``write``, of a program's
    text."""
    if task == "analyse":
        from tuner.codegen.halide.uploads.analysis import analyse

        return json.dumps(analyse(data, arguments["sizes"], is_open=arguments["is_open"])).encode()
    if task == "reference":
        from tuner.codegen.halide.uploads.reference import reference

        named = ("pipeline_bytes", "inputs", "scalars", "outputs")
        return reference(data, **{name: arguments[name] for name in named})
    if task == "write":
        from tuner.codegen.halide.pipelines import serialized

        return serialized(bounded(parsed(data.decode()), arguments["sizes"]))
    from tuner.codegen.halide.uploads.program import described

    return json.dumps(described(data)).encode(errors="replace")


def _answer(
    request: dict[str, Any], data: bytes, confinement: Confinement, status: list[int]
) -> None:
    """Body of the child's thread; leaves the exit status in ``status``."""
    confinement.seal()
    try:
        answer, code = answer_to(request["task"], request["arguments"], data), 0
    except Exception as error:  # noqa: BLE001 - whatever the bytes make Halide say
        said = str(error).removeprefix("Error:").strip()
        said = said or f"{type(error).__name__} without a word"
        answer = said[:2000].encode(errors="replace")
        is_beyond = isinstance(error, NotTunableError | ProgramError)
        code = EXIT_NOT_TUNABLE if is_beyond else EXIT_REFUSED
        code = EXIT_NO_MEMORY if isinstance(error, MemoryError) else code
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    status.append(code)


def _child(request: dict[str, Any], question: int, answer: int) -> None:
    """Answers one request and exits without Halide's clean-up; never returns."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor, place in ((question, 0), (answer, 1), (null, 2)):  # the socket goes away
        os.dup2(descriptor, place)
        os.close(descriptor)
    data = sys.stdin.buffer.read()
    os.chdir(request["folder"])
    confinement = give_up(
        _ROLES.get(request["task"], READER),
        Path("."),
        request["memory_bytes"],
        math.ceil(request["time_limit_s"]),
        answer_bytes=request["answer_bytes"],
    )
    status: list[int] = []
    threading.stack_size(_THREAD_STACK_BYTES)
    thread = threading.Thread(target=_answer, args=(request, data, confinement, status))
    thread.start()
    thread.join()
    os._exit(status[0] if status else EXIT_REFUSED)


def serve(idle_s: float = _IDLE_S) -> None:
    """Answers requests until the client closes its end, or sends none for ``idle_s``."""
    # Detached at the end: the descriptor stays that of standard input.
    client = socket.socket(fileno=os.dup(0))
    poll = select.poll()
    poll.register(0, select.POLLIN)
    client.send(b'{"ready": true}')
    while poll.poll(idle_s * 1000):
        text, files, _, _ = socket.recv_fds(client, _REQUEST_BYTES, 2)
        if not text:
            return
        request = json.loads(text)
        pid = os.fork()
        if pid == 0:
            try:
                client.close()
                _child(request, *files)
            finally:
                os._exit(EXIT_REFUSED)
        for descriptor in files:
            os.close(descriptor)
        how, number = wait_for(pid, request["time_limit_s"], patience=PATIENCE)
        client.send(json.dumps({"how": how, "number": number}).encode())


def main() -> None:
    """Loads everything that a child needs, while files can be opened, then serves."""
    for module in ("uploads.analysis", "uploads.reference", "pipelines"):
        import_module(f"tuner.codegen.halide.{module}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's to handle
    try:
        serve()
    except (BrokenPipeError, ConnectionResetError):
        sys.exit(0)


if __name__ == "__main__":
    main()
