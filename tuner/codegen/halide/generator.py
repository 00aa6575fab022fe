"""The Halide code generator: a pool of compile servers behind the contract of code generators."""

from __future__ import annotations

import platform
import signal
import threading
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from queue import LifoQueue
from typing import Any

from tuner.candidate import Artifact, Candidate
from tuner.codegen.generator import CodeGenerator
from tuner.codegen.halide.client import LLVM_ARGUMENTS, CompileServer, ServerDiedError
from tuner.errors import CandidateError, ToolchainError
from tuner.identity import digest_of_bytes
from tuner.kernels import find_kernel
from tuner.outcome import Outcome

_BASE_KINDS = ("object", "header", "schedule")
_MAX_ERROR_CHARACTERS = 2000
_TUNER = Path(__file__).parents[2]
_LOADED = ("codegen", "kernels", "space", "uploaded")
"""Rooms of ``tuner`` that a compile server loads."""


class HalideGenerator(CodeGenerator):
    """Compiles candidates with the Halide wheel's own LLVM.

    ``time_limit_s`` is wall time for one candidate (typical 0.2 to 0.8 s; some hang for ever).
    ``memory_limit_bytes`` is address space on top of the loaded compiler (typical use 90 MB, up
    to 450 MB).
    """

    name = "halide"

    def __init__(
        self,
        workers: int = 1,
        *,
        time_limit_s: float = 20.0,
        memory_limit_bytes: int = 1 << 30,
    ) -> None:
        self._time_limit_s = time_limit_s
        self._servers = [CompileServer(time_limit_s, memory_limit_bytes) for _ in range(workers)]
        self._free: LifoQueue[CompileServer] = LifoQueue()
        for server in reversed(self._servers):
            self._free.put(server)
        self._closing = threading.Lock()

    def fingerprint(self) -> Mapping[str, str]:
        try:
            return {
                "generator": "halide",
                "halide": version("halide"),
                "llvm_arguments": LLVM_ARGUMENTS,
                "python": platform.python_version(),
                "compile server": digest_of_sources(_TUNER)[:16],
            }
        except PackageNotFoundError:
            raise ToolchainError(
                "the Python package 'halide' is missing", next_step="run `make setup`"
            ) from None

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        problem = candidate.problem
        kernel = find_kernel(problem.workload.kernel)
        kinds = [*_BASE_KINDS, *(["assembly"] if with_assembly else [])]
        request = {
            "workload": problem.workload.as_dict(),
            "contract": problem.contract.value,
            "target": problem.target.as_dict(),
            "config": candidate.config.as_dict(),
            "symbol": problem.symbol,
            "attachment": kernel.attachment(problem.workload.params),
            "kinds": kinds,
        }
        server = self._free.get()
        try:
            return self._run(server, request)
        finally:
            self._free.put(server)

    def _run(self, server: CompileServer, request: dict[str, Any]) -> Artifact:
        try:
            how, number = server.run(request)
        except ServerDiedError as error:
            raise CandidateError(
                Outcome.COMPILER_CRASH, f"the compile server went down: {error}"
            ) from None
        if how == "timeout":
            raise CandidateError(
                Outcome.TIMEOUT, f"compiling took more than {self._time_limit_s:g} s"
            )
        if how == "signal":
            name = signal.Signals(number).name
            raise CandidateError(
                Outcome.COMPILER_CRASH, f"the compiler died of {name}: {_tail(server, 'log')}"
            )
        if number != 0:
            raise CandidateError(Outcome.COMPILE_ERROR, _tail(server, "error"))
        kinds = [*request["kinds"], "loopnest"]
        try:
            files = {kind: (server.directory / kind).read_bytes() for kind in kinds}
        except FileNotFoundError as error:
            missing = str(error.filename).rpartition("/")[2]
            raise CandidateError(
                Outcome.COMPILE_ERROR, f"the compiler ended without writing the {missing}"
            ) from None
        return Artifact(digest_of_bytes(files["object"]), request["symbol"], files)

    def close(self) -> None:
        with self._closing:
            for server in self._servers:
                server.close()


@cache
def digest_of_sources(tuner: Path) -> str:
    """Names the code that compile servers load from the folder ``tuner``.

    Not only what describes pipelines and schedules decides the object: LLVM goes through sets in
    the order of memory addresses, and those move with all that is loaded, and with the interpreter.
    """
    sources = sorted(
        path for room in _LOADED for kind in ("*.py", "*.c") for path in (tuner / room).rglob(kind)
    )
    return digest_of_bytes(b"\0".join(path.read_bytes() for path in sources))


def _tail(server: CompileServer, name: str) -> str:
    """The end of what the child wrote to ``name``, as one line."""
    try:
        text = (server.directory / name).read_text(errors="replace")
    except FileNotFoundError:
        text = ""
    words = " ".join(text.split())
    return words[-_MAX_ERROR_CHARACTERS:] or "no message"
