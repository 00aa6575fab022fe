"""Measurers and kinds of devices that an installed package adds by its entry points."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tuner.conformance.patience import PATIENCE_S
from tuner.measure.qemu.simulator import QEMU_VARIABLE, find_simulator

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


SUITES = """
import pytest

import tuner.conformance
from tuner.conformance.devices import DeviceConformance
from tuner.conformance.measurers import MeasurerConformance
from tuner.measure.device import Limits
from tuner.measure.qemu.device import SimulatorSettings, SimulatorSlot
from tuner.measure.qemu.measurer import QemuMeasurer


def test_they_are_the_installed_ones():
    assert tuner.conformance.__file__.startswith({unpacked!r})


class TestMeasurer(MeasurerConformance):
    @pytest.fixture
    def measurer(self):
        with QemuMeasurer(timeout_s=300) as measurer:
            yield measurer


class TestDevice(DeviceConformance):
    has_clock = False

    def make(self, task_s):
        return SimulatorSlot(SimulatorSettings(name="s"), "s-1", Limits(task_s=task_s))
"""
CHOSEN = "installed or good_candidate or wrong_byte or registered or every_key or doctor or target"


@pytest.mark.slow
def test_the_suites_run_from_a_wheel(tmp_path: Path) -> None:
    """Some of their tests, good and bad candidates among them: all of them are run elsewhere."""
    source, unpacked, outside = (tmp_path / name for name in ("source", "unpacked", "outside"))
    for room in ("tuner", "db", "service", "dashboards"):
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    outside.mkdir()
    build = f"import setuptools.build_meta as b; b.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(unpacked)
    (outside / "test_suites.py").write_text(SUITES.format(unpacked=str(unpacked)))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "test_suites.py", "-k", CHOSEN],
        cwd=outside,
        env={
            **os.environ,
            "PYTHONPATH": str(unpacked),
            QEMU_VARIABLE: find_simulator().command[-1],
        },
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


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


def test_its_table_is_listed_and_checked(environment: dict[str, str]) -> None:
    keys = told(
        environment,
        """
from tuner.measure.device import device_kinds, find_kind
from tuner.measure.farm.farm_file import keys_of, read_farm
(board,) = read_farm().members
keys = [key.name for key in keys_of(board.kind.Settings)]
print(json.dumps([device_kinds(), board.settings.port, keys]))
""",
    )
    assert keys == [
        ["simulator", "hexagon-sim", "phone", "board", "broken"],
        9,
        ["name", "arch", "tags", "port"],
    ]


def test_a_measurer_is_opened_by_its_name(environment: dict[str, str]) -> None:
    found = told(
        environment,
        """
from tuner.errors import UserError
from tuner.measure import DeviceAccess, measurer_names, open_measurer
with open_measurer("bench") as measurer:
    name = measurer.name
try:
    open_measurer("bench", access=DeviceAccess("b"))
except UserError as error:
    refused = error.message
print(json.dumps([measurer_names(), name, refused]))
""",
    )
    assert found == [
        ["qemu", "hexagon-sim", "farm", "bench"],
        "bench",
        "on 'b' with the measurer 'bench', which has no devices to choose from",
    ]
