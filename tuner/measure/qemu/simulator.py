"""Finds a qemu-hexagon that loads TCG plugins, and says which code its version runs.

Which instructions and archs a version implements stands in ``instructions.toml``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import struct
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.codegen.requirements import SET_UP
from tuner.codegen.toolchain import NativePart, built
from tuner.errors import ToolchainError
from tuner.measure.harness.linking import FindLacking
from tuner.measure.qemu.model import find_model
from tuner.measure.qemu.session import Orders, Session, State
from tuner.paths import cache_dir
from tuner.problem.target import BASELINE_TARGET, find_target

_TABLE = Path(__file__).with_name("instructions.toml")
_PARSE_BITS = np.uint32(0xC000)
_CLASS_BITS = np.uint32(0xF0000000)

Release = tuple[int, int]
"""Major and minor version of QEMU."""


def release_of(version: str) -> Release:
    """The release in the line QEMU prints about its version; ``(0, 0)`` without one."""
    found = re.search(r"version (\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


@dataclass(frozen=True)
class Instruction:
    """An instruction some release lacks: words ``w`` with ``w & mask == match``.

    ``syntax`` is as assemblers write it, ``group`` the part of the instruction set.
    """

    mask: int
    match: int
    syntax: str
    group: str


@cache
def missing_instructions(release: Release) -> tuple[Instruction, ...]:
    """The instructions that QEMU of ``release`` lacks, or takes for others."""
    return tuple(
        Instruction(mask, match, syntax, group["name"])
        for group in tomllib.loads(_TABLE.read_text())["group"]
        if release < _first(group)
        for mask, match, syntax in group["instructions"]
    )


def _first(group: dict[str, Any]) -> tuple[float, ...]:
    since = group.get("since")
    return tuple(map(int, since.split("."))) if since else (float("inf"),)


def find_missing(words: NDArray[np.uint32], release: Release) -> Iterator[tuple[int, Instruction]]:
    """Position and instruction of each among ``words`` of code that ``release`` lacks.

    Constant extenders (class 0) and duplexes (parse bits 0), whose bits mean other things, are
    passed over; duplexes hold only instructions of the first archs.
    """
    parse, kind = words & _PARSE_BITS, words & _CLASS_BITS
    candidates = np.flatnonzero((parse != 0) & (kind != 0))
    chosen = words[candidates]
    for instruction in missing_instructions(release):
        hits = (chosen & np.uint32(instruction.mask)) == np.uint32(instruction.match)
        if hits.any():
            yield int(candidates[int(np.argmax(hits))]), instruction


def lacked_by(release: Release) -> FindLacking:
    """:func:`find_missing` as :func:`tuner.measure.harness.linking.screen` takes it."""

    def find(words: NDArray[np.uint32]) -> Iterator[tuple[int, str, str]]:
        for position, found in find_missing(words, release):
            shown = f"the instruction {found.syntax} ({found.group})"
            yield position, shown, f"QEMU {release[0]}.{release[1]}"

    return find


QEMU_VARIABLE = "HVXTUNE_QEMU"
PROGRAM = "qemu-hexagon"
BUILT_PREFIX = "built-"
"""Begins the names of folders with programs built by provision.py: they come before all others."""
_PROBE_SECONDS = 60
NEEDED = "a build with plugins (configure --enable-plugins), such as version 7.2 of Debian 12"
"""A program that serves, for messages."""

_PLUGIN_FOLDER = Path(__file__).parent / "plugin"
_PLUGIN_PARTS = (
    *("accesses", "blocks", "bounds", "caches", "packet", "pipeline"),
    *("prefetches", "sandbox", "timing", "traits", "waits"),
)
PLUGIN = NativePart(
    name="plugin",
    machine="host",
    sources=tuple(_PLUGIN_FOLDER / f"{name}.c" for name in ("plugin", *_PLUGIN_PARTS)),
    headers=tuple(
        _PLUGIN_FOLDER / f"{name}.h"
        for name in ("qemu_api", "session", "events", "account", *_PLUGIN_PARTS)
    ),
)


@dataclass(frozen=True)
class Simulator:
    """A qemu-hexagon that was seen to load the plugin.

    ``command`` starts it, to be followed by its options. ``version`` is the line it prints.
    ``interpreter`` is the dynamic linker's path if that can load the plugin before QEMU itself
    starts, as long as the process has one thread and may enter a user namespace; else ``None``.
    """

    command: tuple[str, ...]
    version: str
    interpreter: str | None = None

    @property
    def release(self) -> Release:
        """Major and minor version of this QEMU."""
        return release_of(self.version)

    def runs(self, arch: str) -> bool:
        """Whether it executes code for ``arch``: it is asked, by a program of four packets."""
        return _runs(self.command, arch)

    def start(self, session: Session) -> list[str]:
        """The command of a run with ``session``: options and the program are to follow."""
        plugin = built(PLUGIN)
        command = list(self.command)
        if self.interpreter is not None:
            options = command[1:-1] if len(command) > 1 else []
            command = [self.interpreter, "--preload", str(plugin), *options, command[-1]]
        return [*command, "-plugin", f"{plugin},session={session.descriptor}"]


@cache
def find_simulator() -> Simulator:
    """The simulator to use: ``$HVXTUNE_QEMU``, else one built here, one on the PATH, one unpacked.

    Raises ``ToolchainError`` that names what was found and why it does not serve, or what is wrong
    with the timing parameters, without which none can be tried.
    """
    find_model(find_target(BASELINE_TARGET).arch)
    given = os.environ.get(QEMU_VARIABLE)
    if given:
        return probe(command_of(Path(given).expanduser().absolute()))
    failures = []
    for command in known_commands():
        try:
            return probe(command)
        except ToolchainError as error:
            failures.append(error.message)
    raise ToolchainError(
        "; ".join(failures) or f"this machine has no {PROGRAM}",
        accepted=NEEDED,
        next_step=f"{SET_UP}, which fetches one, or set {QEMU_VARIABLE}",
    )


def known_commands() -> list[tuple[str, ...]]:
    """Commands of the programs on this machine, the preferred first; not tried yet."""
    on_path = shutil.which(PROGRAM)
    unpacked = [
        path
        for path in (cache_dir() / "qemu").glob(f"*/{PROGRAM}")
        if not path.parent.name.startswith(".")  # one that was never finished
    ]
    newest_first = sorted(unpacked, key=_release_in_name, reverse=True)
    built_here = [path for path in newest_first if path.parent.name.startswith(BUILT_PREFIX)]
    fetched = [path for path in newest_first if path not in built_here]
    found = [*built_here, *([Path(on_path)] if on_path else []), *fetched]
    return [command_of(path) for path in found]


def _release_in_name(program: Path) -> list[int]:
    """The numbers in the name of its folder: a version, without Debian's epoch."""
    name = re.sub(r"^\d+_", "", program.parent.name)
    return [int(number) for number in re.findall(r"\d+", name)]


def command_of(program: Path) -> tuple[str, ...]:
    """How to start ``program``, with the libraries that lie beside it if there are any.

    The ELF interpreter is called by name with the library path as an option: a variable in the
    environment would be handed on to the simulated program.
    """
    folder = program.parent
    if not any(folder.glob("lib*.so*")):
        return (str(program),)
    return (_interpreter(program), "--library-path", str(folder), str(program))


def _interpreter(program: Path) -> str:
    """The ELF interpreter of ``program``: the one beside it where it came with its own libc."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with program.open("rb") as file:
            for segment in ELFFile(file).iter_segments("PT_INTERP"):
                interpreter: Any = segment
                name = str(interpreter.get_interp_name())
                beside = program.parent / Path(name).name
                return str(beside) if beside.exists() else name
    except (OSError, ELFError) as error:
        raise ToolchainError(f"{program} cannot be read: {error}") from None
    raise ToolchainError(f"{program} names no ELF interpreter")


def probe(command: tuple[str, ...]) -> Simulator:
    """Makes sure that ``command`` is a qemu-hexagon and loads the plugin.

    Raises ``ToolchainError`` with what happened instead.
    """
    shown = command[-1]
    said = _run([*command, "--version"])
    version = said.stdout.split("\n")[0].strip()
    if said.returncode or not re.match(r"qemu-hexagon version \d", version):
        answer = (said.stderr or version).strip()[:200] or "it says nothing"
        raise ToolchainError(
            f"{shown} is not {PROGRAM}: {answer}",
            accepted=NEEDED,
            next_step=f"set {QEMU_VARIABLE} to one, or unset it and {SET_UP}",
        )
    plain = Simulator(command, version)
    with contextlib.suppress(ToolchainError):
        preloading = replace(plain, interpreter=_interpreter(Path(shown)))
        if _failure_to_load(preloading) is None:
            return preloading
    reason = _failure_to_load(plain)
    if reason is not None:
        raise ToolchainError(
            f"{shown} ({version}) does not load plugins: {reason}",
            accepted=NEEDED,
            next_step=f"set {QEMU_VARIABLE} to such a build",
        )
    return plain


_PACKETS = (0x1C20C0E0, 0x7800CBC6, 0x7800C000, 0x5400C004)
"""``{ v0 = vxor(v0,v0) } { r6 = #94 } { r0 = #0 } { trap0(#1) }``: an HVX packet, then exit_group,
the same words on every arch."""


@cache
def _runs(command: tuple[str, ...], arch: str) -> bool:
    with tempfile.NamedTemporaryFile(suffix=f"-{arch}") as file:
        file.write(_program_for(arch))
        file.flush()
        os.fchmod(file.fileno(), 0o700)
        try:
            return _run([*command, file.name]).returncode == 0
        except ToolchainError:
            return False


def _program_for(arch: str) -> bytes:
    """A static ELF program of :data:`_PACKETS`. The arch is in the header's flags, 0x66 for v66,
    by which QEMU chooses the processor or refuses the file."""
    base, header, entry = 0x10000, 52, 52 + 32
    words = struct.pack(f"<{len(_PACKETS)}I", *_PACKETS)
    ident = b"\x7fELF\x01\x01\x01".ljust(16, b"\0")  # 32 bits, little-endian
    executable, hexagon, version = 2, 164, 1
    flags = int(arch.removeprefix("v"), 16)
    fields = (executable, hexagon, version, base + entry, header, 0, flags, header, 32, 1, 40, 0, 0)
    size = entry + len(words)
    load, readable, alignment = 1, 5, 0x1000
    segment = struct.pack("<8I", load, 0, base, base, size, size, readable, alignment)
    return ident + struct.pack("<HHIIIIIHHHHHH", *fields) + segment + words


def _failure_to_load(simulator: Simulator) -> str | None:
    """The complaint of a ``simulator`` that does not load the plugin; ``None`` if it does."""
    orders = Orders(find_model("v66"), find_target(BASELINE_TARGET))
    with Session(orders) as session:
        # The plugin is loaded before QEMU finds that /dev/null is not a program.
        said = _run([*simulator.start(session), "/dev/null"], pass_fds=(session.descriptor,))
        if session.results().state is State.LOADED:
            return None
        return said.stderr.strip().split("\n")[-1][:200]


def _run(command: list[str], pass_fds: tuple[int, ...] = ()) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env={},
            pass_fds=pass_fds,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(
            f"{command[-1] if len(command) == 1 else command[0]} cannot be run: {error}",
            accepted=NEEDED,
            next_step=f"set {QEMU_VARIABLE} to such a build",
        ) from None
