"""The bar of a running job on a terminal."""

from __future__ import annotations

import sys
from io import StringIO

import pytest
from rich.console import Console

from service.cli.progress import JobProgress, shown


def bar_of(monkeypatch: pytest.MonkeyPatch, progress: JobProgress) -> str:
    """What a terminal of 80 columns is sent."""
    monkeypatch.setenv("TERM", "xterm")
    screen = StringIO()
    terminal = Console(file=screen, force_terminal=True, color_system=None, width=80)
    monkeypatch.setattr("service.cli.output.console", lambda **_: terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with shown("gaussian5x5_u8") as show:
        show(progress)
    return screen.getvalue()


def test_the_bar_keeps_its_room_whatever_there_is_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = "98 % of the expected optimum"
    drawn = bar_of(monkeypatch, JobProgress(31, 40, {"ok": 31}, 1234, 3.0, 5.0, reached))
    assert "31/40 best 1,234 cycles, 0:05 to go" in drawn
    assert "\N{HORIZONTAL ELLIPSIS}" in drawn
    assert "promoted" not in drawn


def test_promotions_have_a_bar_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = JobProgress(31, 40, {"ok": 31}, 1234, 3.0, 5.0, promoted=2, promotions=5)
    drawn = bar_of(monkeypatch, progress)
    assert "promoted" in drawn
    assert "2/5" in drawn


def test_a_terminal_that_cannot_draw_gets_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with shown("gaussian5x5_u8") as show:
        show(JobProgress(31, 40, {"ok": 31}, 1234, 3.0, 5.0))
    assert capsys.readouterr().err.startswith("gaussian5x5_u8: 31/40 trials, best 1,234 cycles")
