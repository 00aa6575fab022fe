"""Qualcomm's simulator held to the contract of devices, by a stand-in that runs qemu-hexagon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.rig.stand_in_sdk import make_sdk
from tuner.conformance.devices import DeviceConformance
from tuner.measure.device import Device, Limits
from tuner.measure.hexagon_sim.device import HexagonSim, HexagonSimSettings
from tuner.paths import writable

pytestmark = pytest.mark.slow


class TestHexagonSim(DeviceConformance):
    has_clock = False

    @pytest.fixture(autouse=True)
    def sdk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HVXTUNE_KERNELS", "scale_u8=tests.rig.scale_u8:ScaleU8")
        self.root = make_sdk(tmp_path / "sdk")

    def make(self, task_s: float) -> Device:
        settings = HexagonSimSettings(name="sdk", root=str(self.root), arch="v66")
        return HexagonSim(settings, "sdk-1", Limits(task_s=task_s))

    def leftovers(self) -> Sequence[str]:
        folders = [str(folder) for folder in writable("hexagon-sim").iterdir()]
        return [*folders, *self._processes()]

    def _processes(self) -> list[str]:
        import psutil

        mine = psutil.process_iter(["cmdline"])
        return [str(p.info["cmdline"]) for p in mine if str(self.root) in str(p.info["cmdline"])]
