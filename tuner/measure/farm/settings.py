"""What a farm file says, as plain values. Each field is a key of its table; docs/devices.md lists
them.

Bounds stand in a field's metadata, ``least`` and ``most``; the reader holds values to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar


def bounded(default: Any, least: float, most: float) -> Any:
    """A number that must lie within bounds."""
    return field(default=default, metadata={"least": least, "most": most})


@dataclass(frozen=True)
class Limits:
    """What holds for every device of a farm. Times are wall seconds."""

    max_temperature_c: float = bounded(70.0, 20, 150)
    """A device whose hottest sensor is above this rests."""
    cool_down_s: float = bounded(30.0, 0, 3600)
    """How long a hot or throttled device rests before it is checked again."""
    gold_interval_s: float = bounded(600.0, 1, 86400)
    """A device is checked after so long at the latest."""
    recheck_s: float = bounded(5.0, 0.01, 3600)
    """A device that failed a check is checked again after this, then twice this, and so on."""
    bundle: int = bounded(16, 1, 256)
    """Candidates in one call, at most."""
    task_s: float = bounded(60.0, 0.1, 3600)
    """One candidate may take so long."""
    repeats: int = bounded(7, 1, 1000)
    """Timed calls of a candidate at first, on a device with noise."""
    most_repeats: int = bounded(101, 1, 10000)
    """Timed calls in all, where a candidate cannot be told from the best."""
    faults_to_quarantine: int = bounded(3, 1, 20)
    """So many faults among the latest 20 runs put a device into quarantine."""
    checks_to_quarantine: int = bounded(3, 1, 100)
    """So many failed checks in a row do, too."""
    turn_s: float = bounded(10.0, 0.1, 3600)
    """A job gives a device back after so long, for others to have their turn."""
    wait_s: float = bounded(120.0, 0.1, 86400)
    """A job waits so long for a device to come back before it stops."""


@dataclass(frozen=True)
class SimulatorSettings:
    """Slots of the embedded simulator."""

    kind: ClassVar[str] = "simulator"
    name: str
    slots: int = bounded(1, 1, 256)
    arch: str = "v66"
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class HexagonSimSettings:
    """Slots of Qualcomm's simulator. ``root`` is the folder of the SDK."""

    kind: ClassVar[str] = "hexagon-sim"
    name: str
    root: str
    arch: str
    slots: int = bounded(1, 1, 64)
    tags: tuple[str, ...] = ()
    stack_bytes: int = bounded(1 << 20, 1 << 14, 1 << 28)
    """Of the thread that candidates run on."""
    heap_bytes: int = bounded(1 << 25, 1 << 16, 1 << 30)
    """What a candidate may allocate."""


@dataclass(frozen=True)
class PhoneSettings:
    """A phone by its serial number (USB) or its address ``host:port`` (network)."""

    kind: ClassVar[str] = "phone"
    name: str
    arch: str
    serial: str = ""
    address: str = ""
    soc: str = ""
    tags: tuple[str, ...] = ()
    tool: str = "/vendor/bin/run_main_on_hexagon"
    """Path of the SDK's tool on the phone."""
    skel: str = ""
    """Path of the tool's DSP library there; empty where the phone's own search finds it."""
    folder: str = "/data/local/tmp/hvxtune"
    """What is put onto the phone lies in this folder of ours."""
    domain: int = bounded(3, 0, 3)
    """Which DSP: 3 is the CDSP, the one with HVX."""
    stack_bytes: int = bounded(1 << 21, 1 << 18, 1 << 26)
    """Of the thread that runs candidates."""
    heap_bytes: int = bounded(1 << 23, 1 << 16, 1 << 28)
    """Scratch memory a candidate may take."""
    output_bytes: int = bounded(1 << 24, 1 << 16, 1 << 32)
    """What all candidates of a call may leave on the phone's disk until it ends."""

    @property
    def disk_bytes(self) -> int:
        """What must be free on the phone's disk before a call: what candidates leave, and as much
        again for what is pushed, of which the problems' memory images are the most."""
        return 2 * self.output_bytes


DeviceSettings = SimulatorSettings | HexagonSimSettings | PhoneSettings
SETTINGS: tuple[type[DeviceSettings], ...] = (
    SimulatorSettings,
    HexagonSimSettings,
    PhoneSettings,
)
"""The tables of a farm file that name devices, by their ``kind``."""
