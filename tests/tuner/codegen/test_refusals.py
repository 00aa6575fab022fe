"""A compiler that refuses a candidate always gives a reason, if only that it gives none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tuner.codegen.halide import servers
from tuner.records.outcome import Outcome


@pytest.mark.parametrize("told", ["HalideError: Error:", "HalideError: ", "HalideError: Error: \n"])
@pytest.mark.parametrize("logged", ["", "a warning\nof Halide\n"])
def test_an_error_without_a_text_gets_one(tmp_path: Path, told: str, logged: str) -> None:
    (tmp_path / "error").write_text(told)
    (tmp_path / "log").write_text(logged)
    refused = servers._refusal(SimpleNamespace(directory=tmp_path))
    assert refused.outcome is Outcome.COMPILE_ERROR
    why = "a warning of Halide" if logged else "it does not say why"
    assert refused.message == f"Halide refuses this schedule: {why}"


@pytest.mark.parametrize("told", ["HalideError: Error: no such loop x", "KeyError: 'vectors'"])
def test_an_error_with_a_text_keeps_it(tmp_path: Path, told: str) -> None:
    (tmp_path / "error").write_text(told)
    assert servers._refusal(SimpleNamespace(directory=tmp_path)).message == told
