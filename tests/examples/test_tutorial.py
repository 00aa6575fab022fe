"""docs/tutorial.md: its commands, in order, lead from nothing to a program that ran."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.building import ROOT, build_environment, gemm_checksum
from tuner.conformance.patience import PATIENCE_S

PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [text for found, text in BLOCK.findall(PAGE.read_text()) if found == kind]


def shown_commands() -> list[str]:
    lines = "".join(blocks("console")).splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def test_the_project_shown_is_the_example() -> None:
    (shown,) = blocks("cmake")
    assert (ROOT / "examples" / "gemm" / "CMakeLists.txt").read_text().endswith(shown)


def test_set_up_is_what_the_readme_says() -> None:
    """What the next test leaves out, because a development machine has it."""
    commands = shown_commands()
    assert commands[:2] == ["make setup", "export PATH=$PWD/.venv/bin:$PATH"]
    assert "pip install cmake" in commands


@pytest.mark.slow
def test_the_commands_lead_to_a_program_that_ran(tmp_path: Path) -> None:
    for folder in ("cmake", "examples", "tuner/measure/harness"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    here = {"make setup", "export PATH=$PWD/.venv/bin:$PATH", "pip install cmake"}
    commands = [command for command in shown_commands() if command not in here]
    assert [command.split()[0] for command in commands].count("hvxtune") == 4
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HVXTUNE_")}
    tools = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", "\n".join(["set -e", *commands])],
        cwd=tmp_path,
        env={
            **kept,
            **build_environment(tmp_path / "state"),
            "PATH": f"{tools}:{kept['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "where the cycles go" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last == f"wrong 0 of 8192, checksum {gemm_checksum(64, 128, 64)}"
    assert last in blocks("console")[-1]
