"""What shells are told when Tab is pressed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from service.cli import main


def completed(shell: str, line: str) -> str:
    """What the command prints for ``shell``, whose cursor is behind ``line``."""
    words = line.split(" ")
    asked = {
        "_HVXTUNE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    return subprocess.run(
        [sys.executable, "-m", "service.cli"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_commands_kernels_and_choices_are_completed() -> None:
    assert completed("bash", "hvxtune doc").split() == ["doctor"]
    assert "doctor" in completed("zsh", "hvxtune doc")
    assert completed("bash", "hvxtune tune gauss").split() == ["gaussian5x5_u8"]
    assert completed("bash", "hvxtune tune add_u8 --sampler sur").split() == ["surrogate"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_be_told_to_ask(
    shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)
    with pytest.raises(SystemExit, match="0"):
        main(["--show-completion"])
    assert f"_HVXTUNE_COMPLETE=complete_{shell}" in capsys.readouterr().out
