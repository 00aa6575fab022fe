"""The public figures: each has a source, and docs/truth.md shows all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness import markdown
from benchmarks.truth.bench import published
from benchmarks.truth.families import FAMILIES
from benchmarks.truth.figures import PUBLISHED, read_figures
from tuner.errors import UserError

PAGE = Path(__file__).parents[3] / "docs" / "truth.md"
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


@pytest.mark.parametrize("cell", ["16.0", "1,4", "8 x vrmpyacc"])
def test_a_row_that_lacks_something_else_is_refused(tmp_path: Path, cell: str) -> None:
    missing = "," if "," in cell else ""
    assert "figures.csv, line 3" in refusal(tmp_path, ROW.replace(cell, missing))


@pytest.mark.parametrize("value", ["fast", "-1", "0", "nan", "inf"])
def test_a_value_that_is_not_a_number_above_0_is_refused(tmp_path: Path, value: str) -> None:
    said = refusal(tmp_path, ROW.replace("16.0", value))
    assert f"value {value} (figures.csv, line 3)" in said


def test_the_page_shows_every_figure_with_its_source() -> None:
    figures = read_figures()
    assert len(figures) == len(PUBLISHED.read_text().splitlines()) - 1
    page = PAGE.read_text().splitlines()
    rows = [markdown(row) for row in published(figures)]
    missing = [row for row in rows if row not in page]
    assert not missing, "run `make bench NAME=truth` and take its tables over into docs/truth.md"
    shown = "\n".join(rows)
    for figure in figures:
        assert figure.source in shown
        assert figure.printed in shown
        assert figure.not_simulated in shown


def test_the_page_has_a_section_for_every_family() -> None:
    page = PAGE.read_text()
    for family in FAMILIES:
        assert f"\n## {family[0].upper()}{family[1:]}\n" in page
