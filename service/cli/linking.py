"""``tool simulate`` and ``tool runtime``: to link and run a program around a schedule."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Annotated

import typer

from service.cli.options import TargetName
from service.cli.output import print_line
from tuner.errors import UserError
from tuner.problem.default_target import DEFAULT_TARGET

_ELF = b"\x7fELF"
_MACHINE_AT, _HEXAGON = 18, 164
"""``e_machine`` in an ELF header, and EM_HEXAGON (elf.h)."""


def simulate(
    program: Annotated[Path, typer.Argument(metavar="FILE", help="A program for Hexagon.")],
) -> None:
    """Run the program in FILE in the simulator, without timing it; end with its status."""
    from tuner.measure.qemu.simulator import find_simulator

    try:
        with program.open("rb") as file:
            head = file.read(_MACHINE_AT + 2)
    except OSError as error:
        raise UserError(
            f"{program}: {error.strerror}", accepted="a program for Hexagon, statically linked"
        ) from None
    machine = int.from_bytes(head[_MACHINE_AT:], "little")
    if not head.startswith(_ELF) or machine != _HEXAGON:
        raise UserError(
            f"{program} is not a program for Hexagon",
            accepted="an ELF program, statically linked",
            next_step="examples/gemm builds one; docs/service.md shows how",
        )
    done = subprocess.run([*find_simulator().command, str(program)], env={}, check=False)
    raise typer.Exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)


def runtime(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The object to write.")],
    target: TargetName = DEFAULT_TARGET,
    qurt: Annotated[
        bool, typer.Option("--qurt", help="For QuRT, the DSP's system: with its threads.")
    ] = False,
) -> None:
    """Write Halide's runtime, which the objects of schedules call, to FILE."""
    from tuner.codegen.halide.standalone_runtime import write_runtime
    from tuner.problem.target import find_target

    write_runtime(file, find_target(target), qurt=qurt)
    print_line(f"wrote {file}")
