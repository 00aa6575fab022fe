"""The C compiler and the linker: clang and lld out of the ``ziglang`` wheel, and what they built.

Nothing here needs a libc for the target: Hexagon code is freestanding, and host plugins leave
their libc symbols to the process that loads them. So no libc is ever built from source, which
would take a minute.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from tuner.codegen.requirements import reinstall
from tuner.errors import InternalError, StoreError, ToolchainError
from tuner.paths import cached

_BUILD_SECONDS = 300
"""Far more than any build here takes (well under a second), even on a loaded machine."""


@dataclass(frozen=True)
class Toolchain:
    """The ``zig`` program of the wheel. ``version`` names it and the clang inside it."""

    zig: Path
    version: str

    def lld(
        self,
        arguments: Sequence[str | Path],
        *,
        output: int | None = None,
        inputs: Sequence[int] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Runs the linker; the caller judges its exit status. About 5 ms for a small program.

        With ``-o -`` among the arguments the program goes to the descriptor ``output``;
        ``inputs`` are handed on, for arguments such as ``/proc/self/fd/7``.
        """
        return subprocess.run(
            [self.zig, "ld.lld", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if output is None else output,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=_BUILD_SECONDS,
            env={},
            pass_fds=inputs,
            check=False,
        )

    def cc(self, arguments: Sequence[str | Path], scratch: Path) -> None:
        """Runs the compiler (never the link step). ``scratch`` takes its temporary files.

        Raises ``InternalError`` with the first diagnostic: only sources of our own come here.
        """
        done = subprocess.run(
            [self.zig, "cc", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_BUILD_SECONDS,
            env={
                "ZIG_GLOBAL_CACHE_DIR": str(scratch / "zig"),
                "ZIG_LOCAL_CACHE_DIR": str(scratch / "zig"),
                "TMPDIR": str(scratch),
            },
            check=False,
        )
        if done.returncode:
            raise InternalError(f"the C compiler failed: {first_diagnostic(done.stderr)}")


@dataclass(frozen=True)
class NativePart:
    """C or assembly sources that become one file: a relocatable Hexagon object or a host plugin.

    ``arch`` is the Hexagon arch (``v66``) and unused for the host. ``headers`` are what the
    sources include: they decide the cache key, so a missing one gives a stale build.
    """

    name: str
    machine: Literal["hexagon", "host"]
    sources: tuple[Path, ...]
    headers: tuple[Path, ...] = ()
    arch: str = ""
    flags: tuple[str, ...] = ()

    def compiler_flags(self) -> list[str]:
        """Target and code generation flags, beside the part's own."""
        flags = ["-O2", "-std=gnu17", "-Wall", "-Wextra", "-Werror", *self.flags]
        if self.machine == "hexagon":
            target = ["-target", "hexagon-linux-musl", f"-mcpu=hexagon{self.arch}"]
            return [*target, "-ffreestanding", "-fno-stack-protector", *flags]
        target = ["-target", f"{platform.machine()}-linux-gnu"]
        return [*target, "-fPIC", "-fvisibility=hidden", *flags]

    def digest(self, toolchain: Toolchain) -> str:
        """Names the built file: sources, headers, flags and compiler."""
        key = hashlib.sha256()
        for text in (self.machine, toolchain.version, *self.compiler_flags()):
            key.update(text.encode() + b"\0")
        for path in (*self.sources, *self.headers):
            content = path.read_bytes()
            key.update(f"{path.name}\0{len(content)}\0".encode() + content)
        return key.hexdigest()


@cache
def find_toolchain() -> Toolchain:
    """The wheel's compiler; ``ToolchainError`` with the command that installs it."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise ToolchainError(
            "the C compiler is missing (Python package ziglang)", next_step=reinstall("ziglang")
        )
    zig = Path(spec.origin).parent / "zig"
    try:
        lines = [
            subprocess.run(
                [zig, *arguments], capture_output=True, text=True, env={}, check=True, timeout=60
            ).stdout.split("\n")[0]
            for arguments in (["version"], ["clang", "--version"])
        ]
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(
            f"the C compiler {zig} does not run: {error}",
            next_step=reinstall("ziglang"),
        ) from None
    return Toolchain(zig, f"zig {lines[0]}, {lines[1]}")


def built(part: NativePart) -> Path:
    """The built file of ``part``, from the cache or built now.

    Safe for several processes at once: each builds aside and renames into place.
    """
    toolchain = find_toolchain()
    suffix = ".o" if part.machine == "hexagon" else ".so"
    place = cached("native") / f"{part.name}-{part.digest(toolchain)[:24]}{suffix}"
    if place.exists():
        return place
    try:
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{part.name}-") as scratch:
            os.replace(_build(part, toolchain, Path(scratch)), place)
    except OSError as error:
        raise StoreError(
            f"cannot build {part.name} in {place.parent}: {error.strerror}",
            next_step="free space or permissions there",
        ) from None
    return place


def _build(part: NativePart, toolchain: Toolchain, scratch: Path) -> Path:
    objects = []
    for source in part.sources:
        target = scratch / f"{source.name}.o"
        toolchain.cc([*part.compiler_flags(), "-c", source, "-o", target], scratch)
        objects.append(target)
    result = scratch / part.name
    mode = ["-r"] if part.machine == "hexagon" else ["-shared", "-z", "now", "--build-id=none"]
    done = toolchain.lld([*mode, *objects, "-o", result])
    if done.returncode:
        raise InternalError(f"the linker failed: {first_diagnostic(done.stderr)}")
    return result


def first_diagnostic(text: str) -> str:
    """The first line of a compiler's or linker's output that reports an error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0] if lines else "no message")


def fingerprint() -> Mapping[str, str]:
    """The compiler and linker, for the toolchain fingerprint."""
    return {"linker": find_toolchain().version}
