"""What the command loads before it knows what is asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"halide", "numpy", "optuna", "rich", "sqlalchemy", "ziglang"}


def loaded_by(arguments: list[str]) -> set[str]:
    program = (
        "import sys; from service.cli import main; "
        f"assert main({arguments!r}) == 0; "
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in done.stderr.splitlines()}


@pytest.mark.parametrize("arguments", [[], ["--help"], ["tune", "--help"], ["--version"]], ids=str)
def test_help_loads_nothing_heavy(arguments):
    assert loaded_by(arguments) & HEAVY == set()


def test_a_short_question_does_not_load_the_compiler():
    assert loaded_by(["kernel", "list", "--json"]) & {"halide", "optuna", "sqlalchemy"} == set()
