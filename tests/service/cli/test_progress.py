"""The bar of a running job on a terminal."""

from __future__ import annotations

import sys

import pytest

from service.cli.progress import JobProgress, shown


def test_a_terminal_that_cannot_draw_gets_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with shown("gaussian5x5_u8") as show:
        show(JobProgress(31, 40, {"ok": 31}, 1234, 3.0, 5.0))
    assert capsys.readouterr().err.startswith("gaussian5x5_u8: 31/40 trials, best 1,234 cycles")
