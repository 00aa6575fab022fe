"""The kernels shown in docs/adding-a-kernel.md work as the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-kernel.md").read_text()
HVXTUNE = Path(sys.executable).with_name("hvxtune")


def blocks(language: str) -> list[str]:
    """The page's code blocks in a language, as they stand there."""
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A folder with the page's files, and what a shell has after the page's export."""
    kernel, suites, by_hand = blocks("python")
    (tmp_path / "brighten_u8.py").write_text(kernel)
    (tmp_path / "brighten_by_hand.py").write_text(by_hand)
    (tmp_path / "test_brighten.py").write_text(suites)
    export, *_ = commands()
    variable, _, value = export.removeprefix("export ").partition("=")
    return {
        **os.environ,
        variable: f"{value},brighten_by_hand=brighten_by_hand:BrightenByHand",
        "PYTHONPATH": str(tmp_path),
        "HVXTUNE_DATABASE_URL": f"sqlite:///{tmp_path}/hvxtune.sqlite",
    }


def commands() -> list[str]:
    (session,) = blocks("sh")
    return session.strip().splitlines()


@pytest.mark.slow
def test_the_kernel_of_the_page_can_be_measured_and_tuned(environment):
    answers = []
    by_hand = "hvxtune kernel measure brighten_by_hand --config textbook"
    for command in (*commands()[1:], by_hand):
        program, *arguments = command.split()
        assert program == "hvxtune"
        done = subprocess.run(
            [HVXTUNE, *arguments, "--json"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(json.loads(done.stdout))
    measured, tuned, by_hand = answers
    assert measured["verified"] is by_hand["verified"] is True
    assert sum(tuned["outcomes"].values()) == 4
    assert {*tuned["outcomes"]} <= {"ok", "cutoff"}
    assert tuned["best"]["cycles"] <= tuned["textbook"]["cycles"] == measured["cycles"]


@pytest.mark.slow
def test_the_kernel_of_the_page_passes_its_suites(environment, tmp_path):
    """Outside of this tree: with nothing but what is installed and the page's two files."""
    require_suites_pass(environment, tmp_path)


def require_suites_pass(environment: dict[str, str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_brighten.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout
