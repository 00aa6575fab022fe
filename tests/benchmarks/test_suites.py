"""The benchmark of public suites, on Generators of our own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.harness import run
from tests.rig.cpp_compilers import NEEDS_CPP

THEIRS = Path(__file__).parents[2] / "examples/generator/unsharp_generator.cpp"


@NEEDS_CPP
@pytest.mark.slow
def test_a_suite_has_a_row_for_each_generator_and_a_sentence_for_one_that_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(THEIRS, tmp_path)
    (tmp_path / "empty_generator.cpp").touch()
    assert run("suites", [str(tmp_path), "--trials", "2", "--json", "--contracts", "static"]) == 1
    empty, unsharp = json.loads(capsys.readouterr().out)["tables"][0]["rows"]
    assert "registers no Generator" in empty["why"]
    assert unsharp["times"] >= 1.0
    assert not unsharp["why"]
