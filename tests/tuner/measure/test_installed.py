"""Measurers and kinds of devices that an installed package adds by its entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.conformance.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]

PACKAGE = '''
from dataclasses import dataclass

from tuner.measure.finding import Finding
from tuner.measure.device import DeviceSettings, key
from tuner.measure.qemu.device import SimulatorSlot
from tuner.measure.qemu.measurer import QemuMeasurer


@dataclass(frozen=True, kw_only=True)
class BoardSettings(DeviceSettings):
    port: int = key(7, "where it listens", 1, 99)


class Board(SimulatorSlot):
    """A board that is none: it runs candidates under the simulator."""

    kind = "board"
    Settings = BoardSettings

    @classmethod
    def doctor(cls):
        return (Finding("board cable", False, "unplugged", "boards", "plug it in", required=False),)


class BenchMeasurer(QemuMeasurer):
    name = "bench"
'''
ENTRY_POINTS = """
[hvxtune.devices]
board = boards:Board
broken = boards:Lost

[hvxtune.measurers]
bench = boards:BenchMeasurer
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """As after ``pip install``: a module and its metadata on the path."""
    (tmp_path / "boards.py").write_text(PACKAGE)
    metadata = tmp_path / "boards-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: boards\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "farm.toml").write_text("[[board]]\nname = 'b'\narch = 'v66'\nport = 9\n")
    return {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "HVXTUNE_FARM_FILE": str(tmp_path / "farm.toml"),
    }


def told(environment: dict[str, str], code: str) -> object:
    done = subprocess.run(
        [sys.executable, "-c", f"import json\n{code}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_kind_of_device_serves_a_farm(environment: dict[str, str]) -> None:
    found = told(
        environment,
        """
from tuner.conformance.candidates import KERNEL, scale_artifact, scale_problem
import os; os.environ["HVXTUNE_KERNELS"] = KERNEL
from tuner.machine.doctor import examine
from tuner.measure import DeviceAccess, open_measurer
problem = scale_problem()
with open_measurer("farm", access=DeviceAccess("board")) as farm:
    farm.require(problem.target)
    measured = farm.measure(problem, scale_artifact(problem)).measurement
findings = {one.name: one.remedy for one in examine()}
print(json.dumps([measured.device, measured.verified, findings["board cable"], findings["broken"]]))
""",
    )
    assert found == ["b", True, "plug it in", "upgrade or uninstall boards"]
