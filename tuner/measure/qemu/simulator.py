"""Finds a qemu-hexagon that loads TCG plugins."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tuner.codegen.toolchain import NativePart, built
from tuner.errors import ToolchainError
from tuner.measure.qemu.rules import find_rules
from tuner.measure.qemu.session import Orders, Session, State
from tuner.paths import state_dir

QEMU_VARIABLE = "HVXTUNE_QEMU"
PROGRAM = "qemu-hexagon"
_PROBE_SECONDS = 60
NEEDED = "a build with plugins (configure --enable-plugins), such as version 7.2 of Debian 12"
"""What serves, for messages."""

_PLUGIN_FOLDER = Path(__file__).parent / "plugin"
PLUGIN = NativePart(
    name="plugin",
    machine="host",
    sources=tuple(
        _PLUGIN_FOLDER / f"{name}.c" for name in ("plugin", "blocks", "pipeline", "packet")
    ),
    headers=tuple(
        _PLUGIN_FOLDER / f"{name}.h"
        for name in ("qemu_api", "session", "blocks", "pipeline", "packet")
    ),
)


@dataclass(frozen=True)
class Simulator:
    """A qemu-hexagon that was seen to load the plugin.

    ``command`` starts it, to be followed by its options. ``version`` is the line it prints.
    """

    command: tuple[str, ...]
    version: str


@cache
def find_simulator() -> Simulator:
    """The simulator to use: ``$HVXTUNE_QEMU``, else the one on the PATH, else the unpacked one.

    Raises ``ToolchainError`` that names what was found and why it does not serve.
    """
    given = os.environ.get(QEMU_VARIABLE)
    if given:
        return probe(command_of(Path(given).expanduser().absolute()))
    failures = []
    for command in _known_commands():
        try:
            return probe(command)
        except ToolchainError as error:
            failures.append(error.message)
    raise ToolchainError(
        "; ".join(failures) or f"there is no {PROGRAM} on this machine",
        accepted=NEEDED,
        next_step=f"run `make setup`, which fetches one, or set {QEMU_VARIABLE}",
    )


def _known_commands() -> list[tuple[str, ...]]:
    on_path = shutil.which(PROGRAM)
    unpacked = [
        path
        for path in (state_dir() / "qemu").glob(f"*/{PROGRAM}")
        if not path.parent.name.startswith(".")  # one that was never finished
    ]
    newest_first = sorted(unpacked, reverse=True)
    return [command_of(path) for path in ([Path(on_path)] if on_path else []) + newest_first]


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
            f"{shown} is no {PROGRAM}: {answer}",
            accepted=NEEDED,
            next_step=f"set {QEMU_VARIABLE} to one, or unset it and run `make setup`",
        )
    orders = Orders(window_begin=0, window_end=0, candidate_begin=0, rules=find_rules("v66"))
    with Session(orders) as session:
        # The plugin is loaded before QEMU finds that /dev/null is no program.
        said = _run(
            [*command, "-plugin", plugin_option(session), "/dev/null"],
            pass_fds=(session.descriptor,),
        )
        if session.results().state is not State.LOADED:
            reason = said.stderr.strip().split("\n")[-1][:200]
            raise ToolchainError(
                f"{shown} ({version}) does not load plugins: {reason}",
                accepted=NEEDED,
                next_step=f"set {QEMU_VARIABLE} to such a build",
            )
    return Simulator(command, version)


def plugin_option(session: Session) -> str:
    """QEMU's ``-plugin`` value for a run with ``session``."""
    return f"{built(PLUGIN)},session={session.descriptor}"


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
