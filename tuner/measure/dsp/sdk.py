"""Where in a Hexagon SDK the parts lie that phones and its simulator need.

The layout is that of SDK 4 and 5, as build files of public projects use it (Halide
``apps/hannk/run_hexagon_sim.sh``, TVM ``src/runtime/hexagon/rpc/simulator``).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import ToolchainError

SDK_VARIABLES = ("HVXTUNE_HEXAGON_SDK", "HEXAGON_SDK_ROOT")
"""Ours, and the one that the SDK's own set-up script sets; the first that is set counts."""
MORE_READS_VARIABLE = "HVXTUNE_HEXAGON_SIM_READS"
"""Paths outside of the SDK that its simulator has to read, as in ``PATH``."""
TOOL = "libs/run_main_on_hexagon/ship/android_aarch64/run_main_on_hexagon"
SKEL = "libs/run_main_on_hexagon/ship/hexagon_toolv*_v*/librun_main_on_hexagon_skel.so"
"""One for each version of the SDK's compiler and each arch."""
TOOLS = "tools/HEXAGON_Tools"
SIMULATOR = "Tools/bin/hexagon-sim"
_TIMER, _INTERRUPTS = "Tools/lib/iss/qtimer.so", "Tools/lib/iss/l2vic.so"
_SHARED_BY = {"v69": "v68"}
"""Archs that have no files of their own in the SDK (TVM's ``SDKInfo_`` knows the same)."""


@dataclass(frozen=True)
class SimulatorParts:
    """The parts for one arch. ``version`` is that of the SDK's tools."""

    root: Path
    version: str
    simulator: Path
    timer: Path
    interrupts: Path
    boot: Path
    """``runelf.pbn``: boots QuRT and starts a program."""
    os_model: Path
    """``qurt_model.so``: tells the simulator of QuRT's threads."""
    loader: Path
    """``run_main_on_hexagon_sim``: calls ``main`` of a shared object."""

    def reads(self) -> str:
        """The SDK, and what :data:`MORE_READS_VARIABLE` adds, colons between them."""
        return ":".join([str(self.root), os.environ.get(MORE_READS_VARIABLE, "")])

    def missing(self) -> list[str]:
        """Parts that are not there, by their place in the SDK."""
        parts = (
            *(self.simulator, self.timer, self.interrupts),
            *(self.boot, self.os_model, self.loader),
        )
        return [str(part.relative_to(self.root)) for part in parts if not part.exists()]


def sdk_root() -> Path | None:
    """The SDK that the environment names."""
    given = next((os.environ[name] for name in SDK_VARIABLES if os.environ.get(name)), None)
    return None if given is None else Path(given).expanduser().absolute()


def find_parts(root: Path, arch: str) -> SimulatorParts:
    """The parts for ``arch`` (``v66``) in the SDK at ``root``, of its newest tools.

    Raises ``ToolchainError`` naming the first part that is not there.
    """
    parts = locate(root, arch)
    missing = parts.missing()
    if missing:
        raise ToolchainError(
            f"the Hexagon SDK {root} has no {missing[0]}",
            next_step=f"install its parts for {arch}, or correct the path "
            f"({SDK_VARIABLES[0]}, or root in the farm file)",
        )
    return parts


def archs_of(root: Path) -> set[str]:
    """The archs that the SDK at ``root`` has all parts for."""
    own = {folder.name.removeprefix("compute") for folder in (root / "rtos/qurt").glob("computev*")}
    named = own | {arch for arch, shared in _SHARED_BY.items() if shared in own}
    return {arch for arch in named if not locate(root, arch).missing()}


def locate(root: Path, arch: str) -> SimulatorParts:
    """Where the parts lie or ought to."""
    versions = sorted((root / TOOLS).glob("*/" + SIMULATOR), key=lambda p: _order(p.parents[2]))
    tools = versions[-1].parents[2] if versions else root / TOOLS / "VERSION"
    own = _SHARED_BY.get(arch, arch)
    qurt = root / "rtos/qurt" / f"compute{own}"
    ship = root / "libs/run_main_on_hexagon/ship"
    loaders = sorted(
        ship.glob(f"hexagon_toolv*_{own}/run_main_on_hexagon_sim"), key=lambda p: _order(p.parent)
    )
    return SimulatorParts(
        root=root,
        version=tools.name,
        simulator=tools / SIMULATOR,
        timer=tools / _TIMER,
        interrupts=tools / _INTERRUPTS,
        boot=qurt / "sdksim_bin/runelf.pbn",
        os_model=qurt / "debugger/lnx64/qurt_model.so",
        loader=loaders[-1] if loaders else ship / f"hexagon_toolvNN_{own}/run_main_on_hexagon_sim",
    )


def _order(folder: Path) -> list[int]:
    """8.7.06 comes after 8.7.3 and before 19.0.02."""
    return [int(number) for number in re.findall(r"\d+", folder.name)]
