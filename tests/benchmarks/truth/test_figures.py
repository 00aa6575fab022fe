"""The public figures: each has a source."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness import markdown
from benchmarks.truth.bench import published
from benchmarks.truth.figures import PUBLISHED, read_figures
from tuner.errors import UserError

HEADER = "family,device,operation,count,tasks,value,unit,source,not_simulated,remark\n"
ROW = "issue rates,a chip,8 x vrmpyacc,1,4,16.0,pcycles,somewhere,,\n"


def refusal(folder: Path, row: str) -> str:
    path = folder / "figures.csv"
    path.write_text(HEADER + ROW + row)
    with pytest.raises(UserError) as caught:
        read_figures(path)
    return str(caught.value)


def test_a_row_without_a_source_is_refused_in_one_line(tmp_path: Path) -> None:
    said = refusal(tmp_path, ROW.replace("somewhere", " "))
    assert said.startswith("a silicon row without a source (figures.csv, line 3)")
    assert "\n" not in said


@pytest.mark.parametrize("value", ["fast", "nan"])
def test_a_value_that_is_not_a_number_above_0_is_refused(tmp_path: Path, value: str) -> None:
    said = refusal(tmp_path, ROW.replace("16.0", value))
    assert f"value {value} (figures.csv, line 3)" in said


def test_every_figure_is_shown_with_its_source() -> None:
    figures = read_figures()
    assert len(figures) == len(PUBLISHED.read_text().splitlines()) - 1
    shown = "\n".join(markdown(row) for row in published(figures))
    for figure in figures:
        assert figure.source in shown
        assert figure.printed in shown
        assert figure.not_simulated in shown
