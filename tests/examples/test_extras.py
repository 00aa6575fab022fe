"""An installed package adds a kernel, a sampler and a code generator; its author tests them.

hvxtune is installed from its wheel here, as outsiders have it: nothing of the source tree is seen.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.rig.wheels import pip, wheel_of
from tuner.measure.qemu.simulator import QEMU_VARIABLE, find_simulator
from tuner.paths import STATE_DIR_VARIABLE

ROOT = Path(__file__).parents[2]
EXTRAS = ROOT / "examples" / "hvxtune-extras"
LIMIT_S = 900
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Installation:
    """A virtual environment with the wheels of hvxtune and of the package, in a folder of its own.

    What they need is the locked environment that runs this test.
    """

    folder: Path
    environment: dict[str, str]

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    def hvxtune(self, *arguments: str | Path) -> Any:
        """The JSON answer of the installed command."""
        done = self.run(self.python.with_name("hvxtune"), *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("extras")
    wheels = [wheel_of(project, folder) for project in (ROOT, EXTRAS)]
    pip("--python", sys.executable, "--version")  # a clear error if the environment lacks it
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    pip("--python", python, "install", "--no-index", "--no-deps", *wheels)
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    # After the wheels; not itself a site folder, so its editable hvxtune stays out of sight.
    Path(site, "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {
        STATE_DIR_VARIABLE: str(folder / "state"),
        QEMU_VARIABLE: str(find_simulator().command[-1]),
        "HVXTUNE_DATABASE_URL": f"sqlite:///{folder}/hvxtune.sqlite",
    }
    return Installation(folder, environment)


def test_the_wheel_holds_the_rooms_of_the_product_and_no_tests(installation: Installation) -> None:
    (wheel,) = (installation.folder / "wheels" / ROOT.name).glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    rooms = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert rooms == {"tuner", "db", "service", "dashboards", "benchmarks"}
    assert {n.split("/")[1] for n in names if n.startswith("benchmarks/")} == {"search"}


def test_its_kernel_is_tuned_with_its_sampler_and_its_generator(installation: Installation) -> None:
    tuned = installation.hvxtune(
        *("tune", "absdiff_u8", "--sampler", "annealing", "--generator", "halide-near"),
        *("--trials", "6", "--workers", "1", "--seed", "3"),
    )
    assert tuned["outcomes"]["ok"] >= 4
    assert tuned["best"]["cycles"] <= tuned["textbook"]["cycles"]
    trials = installation.hvxtune("show", tuned["job"])["trials"]
    assert [trial["origin"] for trial in trials][-4:] == ["annealing"] * 4


def test_its_author_runs_the_conformance_suites(installation: Installation) -> None:
    tests = shutil.copytree(EXTRAS / "tests", installation.folder / "tests")
    options = ("-q", "-p", "no:cacheprovider", "--strict-markers")
    done = installation.run(installation.python, "-m", "pytest", *options, tests)
    assert done.returncode == 0, done.stdout
