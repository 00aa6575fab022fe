"""The client's end of one compile server: starts it, sends it jobs, replaces it when it fails."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.codegen.halide.children import PATIENCE
from tuner.codegen.halide.server import MODULE
from tuner.codegen.toolchain import NativePart, built
from tuner.errors import ToolchainError
from tuner.kernels import EXTRA_KERNELS_VARIABLE

_START_LIMIT_S = 60.0
_ANSWER_GRACE_S = 10.0
VECTOR_COPIES = ("-disable-memcpy-idiom", "-disable-loop-idiom-memcpy")
"""Loops over vectors that copy stay loops. Two passes of LLVM make calls of ``memcpy`` of them, and
Hexagon's goes eight bytes at a time: ten times as long for rows that are copied tile by tile."""
LLVM_ARGUMENTS = " ".join(("-ifcvt-limit=0", *VECTOR_COPIES))
"""Switches LLVM's If Converter pass off: under register pressure it aborts on one HVX candidate in
ten ("Couldn't find the register class"), and without it the code is as fast."""
_ENVIRONMENT = {
    "HL_LLVM_ARGS": LLVM_ARGUMENTS,
    "PYTHONHASHSEED": "0",
    # Python's own allocator maps memory when the history of small objects makes it, and what the
    # compiling thread frees of the server's memory must not come back to it by its cache.
    "PYTHONMALLOC": "malloc",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
    # A fixed threshold: by default glibc moves it with the history of frees.
    "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
}


TEMPORARY_FOLDERS = NativePart(
    name="temporary-folders",
    machine="host",
    sources=(Path(__file__).with_name("temporary_folders.c"),),
)
"""Keeps Halide from making folders in /tmp."""


class ServerDiedError(Exception):
    """The compile server itself ended or stopped answering. It only forks and waits, so that no
    candidate makes it do so."""


class CompileServer:
    """One compile server process and its scratch directory. Not for several threads at once."""

    def __init__(self, time_limit_s: float, memory_limit_bytes: int) -> None:
        self._time_limit_s = time_limit_s
        self._memory_limit_bytes = memory_limit_bytes
        self._process: subprocess.Popen[bytes] | None = None
        scratch = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a tmpfs
        self.directory = Path(tempfile.mkdtemp(prefix="hvxtune-compile-", dir=scratch))

    def start(self) -> None:
        """Starts the process if it does not run. ``ToolchainError`` if it cannot."""
        if self._process is not None and self._process.poll() is None:
            return
        self.directory.mkdir(exist_ok=True)  # a server that ends takes it along
        environment = {
            **_ENVIRONMENT,
            "LD_PRELOAD": str(built(TEMPORARY_FOLDERS)),
            "TMPDIR": str(self.directory),
        }
        for variable in ("PYTHONPATH", EXTRA_KERNELS_VARIABLE):
            if variable in os.environ:
                environment[variable] = os.environ[variable]
        log_path = self.directory / "server.log"
        with open(log_path, "wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    MODULE,
                    str(self._time_limit_s),
                    str(self.directory),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        try:
            self._read_answer(_START_LIMIT_S)
        except ServerDiedError as error:
            tail = log_path.read_text(errors="replace").strip().splitlines()[-1:] or [str(error)]
            raise ToolchainError(
                f"the Halide compile server does not start: {tail[0]}",
                next_step="run `hvxtune doctor`, or `make setup` to install again",
            ) from None

    def run(self, request: Mapping[str, Any], given: Mapping[str, bytes]) -> tuple[str, int]:
        """Has the server do ``request``; the files end up in :attr:`directory`, where it finds
        those ``given``.

        Returns how the child ended, as :func:`tuner.codegen.halide.children.wait_for` tells it.
        Raises ``ServerDiedError`` if the server went down with it.
        """
        self.start()
        assert self._process is not None  # noqa: S101
        assert self._process.stdin is not None  # noqa: S101
        self._clean()
        for name, content in given.items():
            (self.directory / name).write_bytes(content)
        job = {**request, "memory_limit_bytes": self._memory_limit_bytes}
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.stop()
            raise ServerDiedError("it had ended before the job") from None
        answer = self._read_answer(PATIENCE * self._time_limit_s + _ANSWER_GRACE_S)
        return str(answer["how"]), int(answer["number"])

    def _read_answer(self, limit_s: float) -> dict[str, Any]:
        assert self._process is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        deadline = time.monotonic() + limit_s
        line = b""
        fd = self._process.stdout.fileno()
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(fd, 4096) if ready else b""
            if not piece:
                self.stop()
                raise ServerDiedError("it ended" if ready else f"no answer in {limit_s:.0f} s")
            line += piece
        return dict(json.loads(line))

    def _clean(self) -> None:
        for left in self.directory.iterdir():
            if left.is_dir() and not left.is_symlink():  # of a compilation that was ended
                shutil.rmtree(left)
            elif left.name != "server.log":
                left.unlink()

    def kill(self) -> None:
        """Ends the process, from another thread: what it is doing raises ``ServerDiedError``."""
        process = self._process
        if process is not None:
            process.kill()

    def stop(self) -> None:
        """Ends the process, with whatever it is compiling."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Ends the process and removes the scratch directory."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
