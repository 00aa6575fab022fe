"""The commands of docs/service.md, exactly as they stand there, end in a program that works."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.building import ROOT, build_environment, gemm_checksum
from tests.service.served import served
from tuner.conformance.patience import PATIENCE_S

PAGE = ROOT / "docs" / "service.md"


def shown_commands() -> list[str]:
    section = PAGE.read_text().split("## From `hvxtune serve` to a linked object")[1]
    block = re.search(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert block
    return [line.removeprefix("$ ") for line in block[1].splitlines()]


def on_a_free_port(commands: list[str]) -> list[str]:
    """The commands, the first of which is waited for as a person does; with another port where the
    page's is taken on this machine."""
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", 8100))
            port = "8100"
        except OSError:
            trial.bind(("127.0.0.1", 0))
            port = str(trial.getsockname()[1])
    serve, *others = [line.replace("8100", port) for line in commands]
    there = f"until (echo > /dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.1; done"
    return [serve.replace("hvxtune serve", f"hvxtune serve --port {port}"), there, *others]


@pytest.mark.slow
def test_six_commands_lead_to_a_program_that_ran(tmp_path: Path) -> None:
    commands = shown_commands()
    assert len(commands) == 6
    for folder in ("cmake", "examples", "tuner/measure/harness"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    state = tmp_path / "state"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HVXTUNE_")}
    tools = Path(sys.executable).parent
    environment = {
        **kept,
        **build_environment(state),
        "PATH": f"{tools}:{kept['PATH']}",
    }
    end = "trap 'kill $(jobs -p); wait' EXIT"
    script = "\n".join([end, "set -e", *on_a_free_port(commands)])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"wrong 0 of 8192, checksum {gemm_checksum(64, 128, 64)}\n" in done.stdout


@pytest.mark.slow
def test_the_python_shown_for_clients_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "client.md").read_text()
    block = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert block
    state = tmp_path / "state"
    with served(state) as service:
        environment = {**os.environ, **build_environment(state)}
        done = subprocess.run(
            [sys.executable, "-c", block[1].replace("http://127.0.0.1:8100", service.url)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE_S,
        )
    assert done.returncode == 0, done.stderr
    assert "state {'state': 'done'" in done.stdout
