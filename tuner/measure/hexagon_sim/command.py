"""The simulator's command line and the two files that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuner.measure.hexagon_sim.sdk import SimulatorParts

COSIM_FILE, OSAM_FILE, PMU_FILE = "q6ss.cfg", "osam.cfg", "pmu_stats.txt"


def configuration(parts: SimulatorParts) -> dict[str, bytes]:
    """The files that describe the subsystem and the operating system, by name.

    Addresses and interrupt as in the SDK's own examples.
    """
    devices = (
        f"{parts.timer} --csr_base=0xFC900000 --irq_p=1 --freq=19200000 --cnttid=1\n"
        f"{parts.interrupts} 32 0xFC910000\n"
    )
    return {COSIM_FILE: devices.encode(), OSAM_FILE: f"{parts.os_model}\n".encode()}


def command_line(
    parts: SimulatorParts,
    arch: str,
    folder: Path,
    shared_object: str,
    arguments: Sequence[str],
    *,
    stack_bytes: int,
) -> list[str]:
    """Runs ``main`` of ``shared_object``, a file in ``folder``, with ``arguments``.

    ``--timing`` simulates caches and the bus; without it cycles are those of an ideal memory.
    ``--simulated_returnval`` makes the exit status tell of a failure; without it it is always 0.
    """
    return [
        str(parts.simulator),
        f"-m{arch}",
        *("--timing", "--quiet", "--simulated_returnval"),
        *("--usefs", str(folder)),
        *("--pmu_statsfile", str(folder / PMU_FILE)),
        *("--cosim_file", str(folder / COSIM_FILE)),
        *("--l2tcm_base", "0xd800"),
        *("--rtos", str(folder / OSAM_FILE)),
        str(parts.boot),
        "--",
        str(parts.loader),
        f"stack_size={stack_bytes:#x}",
        "--",
        shared_object,
        *arguments,
    ]
