"""hexagon-sim with the QuRT of a Hexagon SDK, which loads the driver as a phone does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tuner.errors import DeviceError
from tuner.identity import digest_of_bytes
from tuner.measure.dsp.queue import Results
from tuner.measure.dsp.sdk import SimulatorParts
from tuner.measure.dsp.shared_object import driver
from tuner.measure.hexagon_sim.report import PMU_FILE, read_pcycles

DRIVER = "driver.so"


class QurtForm:
    """Boots QuRT, which runs the driver."""

    most_runs = 0

    def __init__(self, parts: SimulatorParts, arch: str, stack_bytes: int) -> None:
        self._parts, self._arch, self._stack_bytes = parts, arch, stack_bytes

    def fingerprint(self) -> Mapping[str, str]:
        """Of simulator and operating system."""
        return {
            "simulator": f"hexagon-sim {self._parts.version}, timing",
            "boot": digest_of_bytes(self._parts.boot.read_bytes())[:16],
            "loader": digest_of_bytes(self._parts.loader.read_bytes())[:16],
        }

    def files(self) -> Mapping[str, bytes]:
        """Those of the process's folder beside the bundle."""
        return {DRIVER: driver(self._arch), **configuration(self._parts)}

    def command(self, folder: Path) -> list[str]:
        """The command line that runs the driver in ``folder``."""
        return command_line(
            self._parts, self._arch, folder, DRIVER, ["."], stack_bytes=self._stack_bytes
        )

    def reads(self) -> str:
        """Paths that the simulator has to read, colons between them."""
        return self._parts.reads()

    def turn(self, is_closed: Callable[[], bool]) -> contextlib.AbstractContextManager[None]:
        """Several may run: ``slots`` of the farm file says how many."""
        return contextlib.nullcontext()

    def check(self, results: Results, said: str, status: int) -> None:
        """``DeviceError`` if the counter read while it ran went further than the whole run."""
        whole = read_pcycles(said)
        timed = sum(sum(record.samples) for record in results.ended)
        if results.complete and whole is not None and timed > whole:
            raise DeviceError(
                f"the simulator counted {timed} cycles in timed calls, but {whole} in the whole run"
            )


COSIM_FILE, OSAM_FILE = "q6ss.cfg", "osam.cfg"


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
