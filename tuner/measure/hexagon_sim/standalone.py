"""hexagon-sim of Qualcomm's tools alone, without an SDK: a program without an operating system.

The driver of every DSP is built once as such a program, by the compiler that comes with the tools,
and loads candidates itself (harness/standalone.c). A process runs one candidate, and no two run at
once on a machine: others have seen wrong verdicts where several did.

Nobody has run this with Qualcomm's tools yet: see docs/devices.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.codegen.toolchain import first_diagnostic
from tuner.errors import DeviceError, ToolchainError
from tuner.identity import digest_of
from tuner.measure.dsp.queue import Results
from tuner.measure.dsp.sdk import MORE_READS_VARIABLE, SDK_VARIABLES, TOOLS
from tuner.measure.harness import STANDALONE_HEADERS, STANDALONE_SOURCES
from tuner.measure.hexagon_sim.report import PMU_FILE, read_pcycles
from tuner.paths import cached

PROGRAM = "driver.elf"
_BUILT = "hexagon-sim-programs"
_BUILD_S = 120.0
_POLL_S = 0.05
_SIMULATOR, _COMPILER, _LIBRARIES = "bin/hexagon-sim", "bin/hexagon-clang", "target/hexagon/lib"
_ARCH = re.compile(r"v\d\d+")


@dataclass(frozen=True)
class StandaloneTools:
    """The tools in the folder ``root``, which holds ``Tools``."""

    root: Path

    @property
    def simulator(self) -> Path:
        return self.root / "Tools" / _SIMULATOR

    @property
    def compiler(self) -> Path:
        return self.root / "Tools" / _COMPILER

    @property
    def archs(self) -> set[str]:
        """Those with a C library."""
        folders = (self.root / "Tools" / _LIBRARIES).glob("v*")
        return {one.name for one in folders if _ARCH.fullmatch(one.name)}

    def missing(self, arch: str = "") -> list[str]:
        """Parts that are not there, by their place in the folder."""
        library = self.root / "Tools" / _LIBRARIES / arch
        parts = [self.simulator, self.compiler, library]
        return [str(part.relative_to(self.root)) for part in parts if not part.exists()]

    @property
    def fingerprint(self) -> dict[str, str]:
        """Names simulator and compiler without reading hundreds of megabytes."""
        found = {}
        for part in (self.simulator, self.compiler):
            known = part.stat()
            found[part.name] = f"{known.st_size:x}-{known.st_mtime_ns:x}"
        return found

    def reads(self) -> str:
        """The tools, and what ``MORE_READS_VARIABLE`` adds, colons between them."""
        return ":".join([str(self.root), os.environ.get(MORE_READS_VARIABLE, "")])


def tools_at(root: Path) -> StandaloneTools | None:
    """The tools alone at ``root``, or ``None``: an SDK has them further below."""
    if (root / TOOLS).exists():
        return None
    folder = root.parent if root.name == "Tools" else root
    return StandaloneTools(folder) if (folder / "Tools" / _SIMULATOR).exists() else None


def require_tools(tools: StandaloneTools, arch: str) -> None:
    """``ToolchainError`` that names the first part for ``arch`` that is not there."""
    missing = tools.missing(arch)
    if missing:
        raise ToolchainError(
            f"Qualcomm's tools at {tools.root} have no {missing[0]}",
            next_step=f"install tools with {arch}, or correct the path ({SDK_VARIABLES[0]}, or "
            "root in the farm file)",
        )


class StandaloneForm:
    """Runs the driver as a program by itself."""

    most_runs = 1

    def __init__(self, tools: StandaloneTools, arch: str) -> None:
        self._tools, self._arch = tools, arch
        self._program: bytes | None = None

    def fingerprint(self) -> Mapping[str, str]:
        """Of simulator and program."""
        version = digest_of(self._tools.fingerprint)[:16]
        return {
            "simulator": f"hexagon-sim, stand-alone, timing, tools {version}",
            "program": digest_of(_contents())[:16],
        }

    def files(self) -> Mapping[str, bytes]:
        """Those of the process's folder beside the bundle."""
        if self._program is None:
            self._program = driver_program(self._tools, self._arch)
        return {PROGRAM: self._program}

    def command(self, folder: Path) -> list[str]:
        """As published: the program comes last. ``--timing`` simulates caches and the bus;
        ``--simulated_returnval`` makes the exit status tell of a failure."""
        return [
            str(self._tools.simulator),
            f"-m{self._arch}",
            *("--timing", "--simulated_returnval"),
            *("--usefs", str(folder)),
            *("--pmu_statsfile", str(folder / PMU_FILE)),
            str(folder / PROGRAM),
        ]

    def reads(self) -> str:
        """Paths that the simulator has to read, colons between them."""
        return self._tools.reads()

    def turn(self, is_closed: Callable[[], bool]) -> contextlib.AbstractContextManager[None]:
        """Waits until no other process of the simulator runs."""
        return alone(is_closed)

    def check(self, results: Results, said: str, status: int) -> None:
        """``DeviceError`` for a program that is not hexagon-sim, or that counts no cycles."""
        tail = " ".join(said.split())[-200:] or "nothing"
        if results.power is None and not results.ended:
            raise DeviceError(
                f"{self._tools.simulator} did not run the driver (status {status}); "
                f"it said: {tail}",
                next_step="run it by hand with --help: it must be hexagon-sim, and start here",
            )
        whole = read_pcycles(said)
        if results.complete and not whole:
            counted = "no cycles" if whole is None else "zero cycles"
            raise DeviceError(
                f"{self._tools.simulator} printed {counted}; it said: {tail}",
                accepted="a last line with Pcycles=N, N above 0",
                next_step="use tools whose hexagon-sim prints it, and report the version of yours",
            )


def _contents() -> dict[str, str]:
    return {one.name: one.read_text() for one in (*STANDALONE_SOURCES, *STANDALONE_HEADERS)}


def driver_program(tools: StandaloneTools, arch: str) -> bytes:
    """The driver, built by ``tools`` for ``arch``; kept in the cache.

    ``ToolchainError`` with the compiler's reason if it cannot build it.
    """
    name = digest_of({"sources": _contents(), "tools": tools.fingerprint, "arch": arch})
    kept = cached(_BUILT) / f"{name[:32]}.elf"
    if kept.exists():
        return kept.read_bytes()
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix="building-") as made:
        aside = Path(made) / PROGRAM
        _build(tools, arch, aside)
        os.replace(aside, kept)
    return kept.read_bytes()


def _build(tools: StandaloneTools, arch: str, program: Path) -> None:
    command = [
        *(str(tools.compiler), f"-m{arch}", "-mhvx", "-mhvx-length=128B", "-O2", "-G0"),
        *("-fno-builtin", "-fshort-enums", "-Dmain=hvxtune_driver"),
        *("-o", str(program), *map(str, STANDALONE_SOURCES)),
    ]
    reason = ""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={},
            timeout=_BUILD_S,
            check=False,
        )
        if done.returncode or not program.exists():
            reason = first_diagnostic(done.stderr.decode(errors="replace")) or "it says nothing"
    except subprocess.TimeoutExpired:
        reason = f"it does not end within {_BUILD_S:.0f} s"
    except OSError as error:
        reason = str(error.strerror)
    if reason:
        raise ToolchainError(
            f"{tools.compiler} cannot build the driver for {arch}: {reason[:300]}",
            next_step=f"name the folder of complete Qualcomm tools in {SDK_VARIABLES[0]}",
        )


@contextlib.contextmanager
def alone(is_closed: Callable[[], bool]) -> Iterator[None]:
    """Holds the turn of this machine's user; ``DeviceError`` once ``is_closed`` while it waits."""
    with (cached(_BUILT) / "turn").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if is_closed():
                    raise DeviceError("the simulator was closed") from None
                time.sleep(_POLL_S)
        yield
