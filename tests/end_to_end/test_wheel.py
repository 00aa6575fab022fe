"""hvxtune from its wheel: installed with pip in a clean environment, run where no checkout is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from tests.examples.building import CMAKE, gemm_checksum
from tests.rig.wheels import pip, wheel_of
from tuner.conformance.patience import PATIENCE_S, until
from tuner.executor.cluster.connection import Cluster
from tuner.paths import CACHE_DIR_VARIABLE, STATE_DIR_VARIABLE, cache_dir

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel and what it requires, and an empty folder to work in."""

    venv: Path
    folder: Path
    environment: dict[str, str]

    def command(self, *arguments: str | Path) -> list[str]:
        return [str(self.venv / "bin/hvxtune"), *map(str, arguments)]

    def run(self, *command: str | Path) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def hvxtune(self, *arguments: str | Path, executor: str = "") -> Any:
        """The JSON answer of the installed command."""
        given = ["env", f"HVXTUNE_EXECUTOR={executor}"] if executor else []
        return json.loads(self.run(*given, *self.command(*arguments, "--json")))

    @contextmanager
    def started(self, *arguments: str) -> Iterator[IO[str]]:
        """What a command prints that runs until it is told to end."""
        with (self.folder / f"{arguments[0]}.log").open("w") as log:
            process = subprocess.Popen(
                self.command(*arguments),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            process.stdout.close()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """With the extra of clusters; pip finds out itself what the wheel requires, in the versions
    that are locked."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel, venv, empty = wheel_of(ROOT, folder), folder / "venv", folder / "empty"
    empty.mkdir()
    locked = folder / "locked.txt"
    locks = "".join((ROOT / ".ci/lock" / f"{each}.txt").read_text() for each in ("runtime", "dev"))
    pins = re.findall(r"^[\w.-]+==[^\\\n]+", locks, re.MULTILINE)
    locked.write_text("\n".join(pins))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    options = ("--quiet", "--only-binary", ":all:", "--constraint", locked)
    pip("--python", venv / "bin/python", "install", *options, f"{wheel}[dask]")
    ours = ("HVXTUNE_", "PYTHON", "VIRTUAL_ENV")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    environment |= {
        "PATH": f"{venv}/bin:{os.defpath}",
        STATE_DIR_VARIABLE: str(folder / "state"),
        CACHE_DIR_VARIABLE: str(cache_dir()),  # the machine's, not a part of the installation
    }
    yield Installed(venv, empty, environment)
    shutil.rmtree(venv)  # 0.8 GB


def test_it_is_set_up_and_finds_its_files(installed: Installed) -> None:
    assert Path(installed.hvxtune("setup")["simulator"]["program"]).is_file()
    assert installed.hvxtune("doctor")["ok"]
    where = installed.hvxtune("tool", "where")
    for name in ("cmake", "docs", "examples"):
        assert Path(where[name]).is_relative_to(installed.venv)
    for page in (ROOT / "docs").glob("*.md"):
        assert Path(where["docs"], page.name).read_text() == page.read_text()
    said = installed.run(*installed.command("farm", "list"))
    page = re.search(r"\S+devices\.md", said)
    assert page
    assert (installed.folder / page[0]).is_file()


def test_a_build_finds_its_modules_and_links_what_was_tuned(
    installed: Installed, tmp_path: Path
) -> None:
    """The example of the wheel as a project of one's own: no path but the one that is told."""
    shape = {"m": 64, "n": 128, "k": 64}
    params = [word for name, value in shape.items() for word in ("-p", f"{name}={value}")]
    tuned = installed.hvxtune("tune", "gemm_u8", *params, "--contract", "static", "--trials", "2")
    assert tuned["outcomes"]["ok"]
    where = installed.hvxtune("tool", "where")
    project = shutil.copytree(Path(where["examples"], "gemm"), tmp_path / "gemm")
    installed.run(
        *(CMAKE, "-G", "Unix Makefiles", "-S", project, "-B", tmp_path / "build"),
        *("--toolchain", f"{where['cmake']}/hexagon-zig.cmake", f"-DHvxTune_DIR={where['cmake']}"),
    )
    installed.run(CMAKE, "--build", tmp_path / "build")
    said = installed.run(*installed.command("tool", "simulate", tmp_path / "build/gemm_example"))
    assert said == f"wrong 0 of 8192, checksum {gemm_checksum(**shape)}\n"


def test_a_service_tunes_and_answers(installed: Installed) -> None:
    with installed.started("serve", "--port", "0", "--json") as printed:
        url = json.loads(printed.readline())["url"]
        token = Path(installed.environment[STATE_DIR_VARIABLE], "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as client:
            assert client.get("/healthz").status_code == 200
            asked = {"kernel": "add_u8", "contract": "static"}
            taken = client.post("/v1/jobs", json={**asked, "budget": {"trials": 3}})
            assert taken.status_code == 201, taken.text
            job = taken.json()["jobs"][0]["job"]
            until(lambda: client.get(f"/v1/jobs/{job}").json()["state"] in ("done", "failed"))
            best = client.get("/v1/schedules/best", params=asked)
    assert best.status_code == 200, best.text
    assert best.json()["cycles"] > 0


def test_a_worker_of_a_cluster_tunes(installed: Installed) -> None:
    with installed.started("cluster", "scheduler", "--port", "0") as printed:
        executor = printed.readline().removeprefix("executor: ").strip()
        with installed.started(
            "cluster", "worker", "--scheduler", executor, "--slots", "1", "--name", "one"
        ):
            cluster = Cluster(executor)
            until(lambda: bool(cluster.workers()))
            cluster.client.close()
            asked = ("tune", "add_u8", "-p", "width=512", "--trials", "2", "--workers", "1")
            tuned = installed.hvxtune(*asked, executor=executor)
    assert tuned["outcomes"] == {"ok": 2}
