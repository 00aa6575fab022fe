"""docs/operating.md without systemd: its files, its processes, its commands."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.db.postgres_server import NEEDS_POSTGRES, databases
from tests.rig.scale_u8 import KERNELS
from tuner.conformance.patience import PATIENCE_S, until
from tuner.executor.cluster.authority import make_certificates
from tuner.paths import cache_dir

ROOT = Path(__file__).parents[2]
FILES = ROOT / "examples" / "operating"
UNIT = FILES / "hvxtune@.service"
TOOLS = Path(sys.executable).parent

pytestmark = pytest.mark.slow


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/hvxtune/bin", str(TOOLS)))
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def settings(file: Path) -> dict[str, str]:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def lab(folder: Path, database: str) -> Iterator[str]:
    """The processes of the units with the settings of the example files, each with state and cache
    of its own as on machines of their own; the address of the service."""
    port, scheduler = unused_port(), unused_port()
    [certificates] = make_certificates(["127.0.0.1"], folder / "tls").folders.values()
    unit = configparser.RawConfigParser(strict=False, comment_prefixes=("#",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    start = unit["Service"]["ExecStart"].replace("/opt/hvxtune/bin/hvxtune", str(TOOLS / "hvxtune"))
    here = settings(FILES / "hvxtune.env") | {
        "HVXTUNE_DATABASE_URL": database,
        "HVXTUNE_CLUSTER_TLS": str(certificates),
        "HVXTUNE_CACHE_DIR": str(cache_dir()),
    }
    of_worker = {"HVXTUNE_DATABASE_URL": "", "HVXTUNE_ARTIFACTS": ""}
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HVXTUNE_")}
    with ExitStack() as stack:
        for name in ("scheduler", "serve", "conductor", "worker"):
            options = settings(FILES / f"{name}.env")["COMMAND"]
            options = options.replace("10.0.0.5:8786", f"127.0.0.1:{scheduler}")
            options = options.replace("10.0.0.5", f"127.0.0.1 --port {scheduler}")
            options += f" --port {port}" if name == "serve" else ""
            state = {"HVXTUNE_STATE_DIR": str(folder / name), "HVXTUNE_KERNELS": KERNELS}
            if name == "worker":
                state |= of_worker
            process = subprocess.Popen(
                shlex.split(start.replace("$COMMAND", options)),
                env={**kept, **here, **state, "PYTHONPATH": str(ROOT)},
                stdout=stack.enter_context((folder / f"{name}.log").open("w")),
                stderr=subprocess.STDOUT,
            )
            stack.callback(process.wait, PATIENCE_S)
            stack.callback(process.terminate)
        yield f"http://127.0.0.1:{port}"


@NEEDS_POSTGRES[0]
@NEEDS_POSTGRES[1]
def test_the_units_make_a_lab(tmp_path: Path) -> None:
    with databases() as new_database, lab(tmp_path, new_database("template1")) as address:
        until(lambda: (tmp_path / "serve" / "token").exists())
        token = (tmp_path / "serve" / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=address, headers=headers, timeout=PATIENCE_S) as client:
            until(lambda: client.get("/readyz").is_success)
            until(lambda: any(one["fit"] for one in client.get("/v1/conductors").json()["items"]))
            body = {"kernel": "scale_u8", "budget": {"trials": 4}}
            made = client.post("/v1/jobs", json=body)
            assert made.status_code == 201, made.text
            [job] = made.json()["jobs"]
            place = f"/v1/jobs/{job['job']}"
            until(lambda: client.get(place).json()["state"] not in ("queued", "running"))
            ended = client.get(place).json()
            assert (ended["state"], ended["best"]["verified"]) == ("done", True)


def shown_commands(page: str) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def test_the_commands_shown_run(tmp_path: Path) -> None:
    """Rotation, backup and drill, one after the other."""
    commands = shown_commands((ROOT / "docs" / "operating.md").read_text())
    assert sum("restore" in one for one in commands) == 1
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HVXTUNE_")}
    tools = f"{TOOLS}:{kept['PATH']}"
    done = subprocess.run(
        [
            "bash",
            "-e",
            "-c",
            "\n".join(["hvxtune tune add_u8 --trials 2 -p width=256 -p height=8", *commands]),
        ],
        cwd=tmp_path,
        env={**kept, "PATH": tools, "HVXTUNE_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "add_u8" in done.stdout.rpartition("artifacts")[2]
