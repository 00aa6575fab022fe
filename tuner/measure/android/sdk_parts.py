"""What a phone needs of Qualcomm's Hexagon SDK, and where in the SDK it lies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

SDK_VARIABLE = "HEXAGON_SDK_ROOT"
"""Set by the SDK's own set-up script."""
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
    """Looks in the SDK that ``$HEXAGON_SDK_ROOT`` names. Changes nothing."""
    given = os.environ.get(SDK_VARIABLE)
    if not given:
        return SdkParts(None, None, ())
    root = Path(given).expanduser()
    tool = root / TOOL
    return SdkParts(root, tool if tool.exists() else None, tuple(sorted(root.glob(SKEL))))
