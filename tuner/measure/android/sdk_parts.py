"""What a phone needs of Qualcomm's Hexagon SDK, and where in the SDK it lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner.measure.hexagon_sim.sdk import SDK_VARIABLES, sdk_root

SDK_VARIABLE = SDK_VARIABLES[1]
TOOL = "libs/run_main_on_hexagon/ship/android_aarch64/run_main_on_hexagon"
SKEL = "libs/run_main_on_hexagon/ship/hexagon_toolv*_v*/librun_main_on_hexagon_skel.so"
"""One for each version of the SDK's compiler and each arch."""


@dataclass(frozen=True)
class SdkParts:
    """The SDK's folder, ``None`` if the variable is not set, and the parts found in it."""

    root: Path | None
    tool: Path | None
    skels: tuple[Path, ...]

    @property
    def missing(self) -> list[str]:
        """Parts that are not there, by their place in the SDK."""
        return [TOOL] * (self.tool is None) + [SKEL] * (not self.skels)


def find_sdk_parts() -> SdkParts:
    """Looks in the SDK that the environment names. Changes nothing."""
    root = sdk_root()
    if root is None:
        return SdkParts(None, None, ())
    tool = root / TOOL
    return SdkParts(root, tool if tool.exists() else None, tuple(sorted(root.glob(SKEL))))
