"""``python -m benchmarks``: names, tables as Markdown and JSON, bars, rows kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.harness import BENCHMARKS, Report

ROOT = Path(__file__).parents[2]


def test_docs_name_those_there_are() -> None:
    pages = [path.read_text() for path in (ROOT / "docs").glob("*.md")]
    named = {
        word.strip("`.,;:()")
        for page in pages
        for call in ("make bench NAME=", "python -m benchmarks ")
        for word in (rest.split()[0] for rest in page.split(call)[1:])
    }
    assert named
    assert named <= set(BENCHMARKS)


def test_an_unknown_benchmark_or_name_within_it_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert harness.run("speed", []) == 2
    assert "unknown benchmark 'speed'; known are doubt" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        harness.run("everyday", ["sobel"])
    assert "unknown 'sobel'; known are FIR" in capsys.readouterr().err


def told(*, as_json: bool) -> Report:
    report = Report(as_json=as_json)
    report.table({"kernel": "", "cycles": ",", "share": ".0%"}, "All of them")
    report.row("add", 1234, 0.5)
    report.row("gemm", None, 0.25)
    report.bar("share", 0.25, least=0.2)
    report.end()
    return report


def test_rows_are_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert not told(as_json=False).missed
    assert capsys.readouterr().out.split("\n\n") == [
        "\n### All of them",
        (
            "| kernel | cycles | share |\n| --- | ---: | ---: |\n"
            "| add | 1,234 | 50% |\n| gemm | - | 25% |"
        ),
        "share: 0.25, at least 0.2: met\n",
    ]


def test_json_has_the_figures_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    told(as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["tables"][0]["rows"][0] == {"kernel": "add", "cycles": 1234, "share": 0.5}
    assert [bar["met"] for bar in found["bars"]] == [True]


@pytest.mark.parametrize(("most", "least"), [(0.9, None)])
def test_a_bar_that_is_missed_fails_the_run(most: float | None, least: float | None) -> None:
    report = Report(as_json=True)
    report.bar("ratio", 1.0, most=most, least=least)
    assert report.missed
