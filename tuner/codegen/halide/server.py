"""The compile server: a process that holds Halide loaded and forks one child per candidate.

Run as ``python -m tuner.codegen.halide.server SECONDS DIRECTORY``, the time limit of one job and
the folder for its files; it reads jobs from standard input and answers on standard output, one
JSON line each way per job. A job may also be to run another compiler under the same limits, its
command line being the job's ``program``. When its client goes away, killed or not, it removes the
folder.

Why it is built like this:

- Forking gives every candidate the same, clean compiler: no state leaks from one to the next, and
  an abort, a crash or a hang ends one child, not the server.
- The object bytes depend on memory addresses (LLVM iterates over sets of pointers). So the child
  compiles in a new thread whose memory lies at fixed addresses (``compile_memory.c``), whatever the
  server did before; and the server runs without address space randomization, with a fixed
  environment and hash seed, for the addresses in libraries.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import gc
import json
import math
import os
import select
import shutil
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tuner.codegen.confinement import (
    COMPILER,
    PROGRAM,
    PROGRAMS,
    Confinement,
    Limits,
    Program,
    confine,
)
from tuner.codegen.halide.children import PATIENCE, PR_SET_PDEATHSIG, wait_for

MODULE = "tuner.codegen.halide.server"
ADDR_NO_RANDOMIZE = 0x0040000  # linux/personality.h
EXIT_REFUSED = 3
"""Exit status of a child whose candidate could not be compiled; the file ``error`` says why."""
EXIT_INSTALLATION = 4
"""The same where no candidate can be; ``error`` is an error's JSON form."""
_NEEDED = (
    "tuner.codegen.halide.compilation",
    "tuner.codegen.halide.uploads.pipelines",
)
"""Modules that children use, who can open no file to load one."""
_THREAD_STACK_BYTES = 64 << 20
_FILE_LIMIT_BYTES = 64 << 20
_CPU_GRACE_S = 5
_PIPE_BYTES = 1 << 16


def _switch_off_randomization() -> None:
    """Starts this process again without address space randomization, if it has it."""
    libc = ctypes.CDLL(None, use_errno=True)
    current = libc.personality(ctypes.c_ulong(0xFFFFFFFF))
    if current & ADDR_NO_RANDOMIZE:
        return
    if libc.personality(ctypes.c_ulong(current | ADDR_NO_RANDOMIZE)) < 0:
        return  # a container may forbid it: objects are then right, but not repeatable
    os.execv(sys.executable, [sys.executable, "-P", "-m", MODULE, *sys.argv[1:]])  # noqa: S606


def _read_line() -> bytes:
    """One line from standard input. The client sends no further job before the answer."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, _PIPE_BYTES)
        if not piece:
            break
        line += piece
    return line


def _confined(request: dict[str, Any]) -> Confinement:
    """The child in its role; a time-out ends it before the limit of processor time does."""
    program = None
    if "program" in request:
        reads = map(Path, request.get("reads", ()))
        program = Program(Path(request["program"][0]), tuple(reads))
    limits = Limits(
        int(request["memory_limit_bytes"]),
        math.ceil(request.get("processor_s", float(sys.argv[1]) + _CPU_GRACE_S)),
        _FILE_LIMIT_BYTES,
    )
    role = COMPILER
    if program is not None:
        role = PROGRAMS if request.get("starts_programs") else PROGRAM
    return confine(role, Path("."), limits, program)


def _compile(request: dict[str, Any], confinement: Confinement, done: int) -> None:
    """Body of the child's thread; writes the exit status to the descriptor ``done``."""
    from tuner.codegen.halide.compilation import compile_request
    from tuner.errors import ToolchainError

    confinement.seal()
    ctypes.CDLL(None).hvxtune_fix_memory()
    try:
        compile_request(request)
        status = 0
    except ToolchainError as error:
        with open("error", "w", encoding="utf-8", errors="replace") as file:
            json.dump(error.as_dict(), file)
        status = EXIT_INSTALLATION
    except BaseException as error:  # noqa: BLE001 - kernels are user code: any of them may come
        with open("error", "w", encoding="utf-8", errors="replace") as file:
            file.write(f"{type(error).__name__}: {error}")
        status = EXIT_REFUSED
    os.write(done, bytes([status]))


def _child() -> None:
    """Reads one job and compiles it, or becomes the ``program`` it names; never returns."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    request = json.loads(_read_line())
    os.chdir(sys.argv[2])
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    ended, done = os.pipe()
    if "autoscheduler" in request:
        from tuner.codegen.halide.compilation import load_autoscheduler

        load_autoscheduler(request["autoscheduler"])
    confinement = _confined(request)
    if "program" in request:
        confinement.seal()
        environment = request.get("environment", {})
        os.execve(request["program"][0], request["program"], environment)  # noqa: S606 - no shell
    _thread.stack_size(_THREAD_STACK_BYTES)
    _thread.start_new_thread(_compile, (request, confinement, done))
    os._exit(os.read(ended, 1)[0])


def _serve(time_limit_s: float) -> None:
    ready = select.poll()
    ready.register(0, select.POLLIN)
    os.write(1, b'{"ready": true}\n')
    while True:
        events = ready.poll()
        if not any(event & select.POLLIN for _, event in events):
            return
        pid = os.fork()
        if pid == 0:
            try:
                _child()
            finally:
                os._exit(EXIT_REFUSED)
        how, number = wait_for(pid, time_limit_s, patience=PATIENCE)
        os.write(1, b'{"how": "%s", "number": %d}\n' % (how.encode(), number))


def main() -> None:
    """Loads everything a child may need, then serves until standard input closes."""
    _switch_off_randomization()
    from tuner.kernels import load_kernels

    for module in _NEEDED:
        import_module(module)
    load_kernels()
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's to handle
    try:
        with contextlib.suppress(BrokenPipeError):
            _serve(time_limit_s=float(sys.argv[1]))
    finally:
        shutil.rmtree(sys.argv[2], ignore_errors=True)


if __name__ == "__main__":
    main()
