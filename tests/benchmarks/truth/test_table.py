"""The truth table: ratios, tau and goals, and the rows of docs/truth.md simulated again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness import Report
from benchmarks.truth.bench import SUMMARY, TARGET, is_met, rows_of, summary
from benchmarks.truth.families import (
    BEYOND,
    INSIDE,
    ISSUE,
    Comparison,
    Line,
    least_tau,
)
from benchmarks.truth.figures import read_figures
from benchmarks.truth.programs import Chain

PAGE = Path(__file__).parents[3] / "docs" / "truth.md"


def line(silicon: float, model: float, device: str = "a chip", remark: str = "") -> Line:
    return Line(ISSUE, "a loop", device, silicon, model, "pcycles", "somewhere", remark)


def test_tau_is_the_least_of_the_devices() -> None:
    agrees = [line(1, 10), line(2, 20)]
    assert least_tau(agrees) == 1
    assert least_tau([*agrees, line(2, 10, "another"), line(1, 20, "another")]) == -1
    assert least_tau([line(1, 10), line(1, 10, "another")]) is None


@pytest.mark.parametrize(
    ("lines", "tau", "met"),
    [
        ([line(16.0, 16.1)], 1.0, True),
        ([line(16.0, 16.2)], 1.0, False),
        ([line(16.0, 12.0, remark="known")], 1.0, True),
        ([line(16.0, 16.0)], 0.8, False),
    ],
)
def test_a_goal_takes_ratios_and_tau(lines: list[Line], tau: float | None, met: bool) -> None:
    assert is_met(ISSUE, lines, tau) is met


@pytest.fixture(scope="module")
def compared() -> Iterator[Comparison]:
    with Chain(TARGET) as chain:
        yield Comparison(read_figures(), chain)


@pytest.mark.slow
@pytest.mark.parametrize("family", [ISSUE, INSIDE, BEYOND])
def test_one_thread_meets_its_goals_and_the_page_shows_it(
    compared: Comparison, family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, tau = compared.lines(family), compared.tau(family)
    assert is_met(family, lines, tau), [(one.what, one.ratio) for one in lines]
    rows_of(Report(), SUMMARY, "", [summary(family, lines, tau)])
    page = ["", *PAGE.read_text().splitlines()]
    changed = [row for row in capsys.readouterr().out.splitlines() if row not in page]
    assert not changed, "run `make bench NAME=truth` and take its summary over into docs/truth.md"
