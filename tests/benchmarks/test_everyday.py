"""The benchmark ``everyday`` tunes pipelines as uploads, and says what is wrong with a row."""

from __future__ import annotations

import re

import pytest

from benchmarks import harness
from benchmarks.everyday.bench import LEAST_SHARE, Row
from tuner.records.candidate import Measurement

FEW = ("mean of 2x2", "NV12 to RGB")
"""Each had no right textbook schedule once, or half the speed."""


def measured(cycles: int) -> Measurement:
    return Measurement(cycles, cycles, 0, True, "model", "qemu")


def test_a_row_far_below_the_peak_needs_a_reason() -> None:
    row = Row("box", measured(2000), measured(1000), least_cycles=1000 * LEAST_SHARE - 1)
    assert row.faults == ["9.9% of the roofline, and no reason is given"]
    reasoned = Row("box", measured(2000), measured(1000), row.least_cycles, reason="as written")
    assert not reasoned.faults
    assert reasoned.cells[:3] == ("box", "2,000 / 2,000", "1,000 / 1,000")
    assert reasoned.cells[-1] == "as written"


@pytest.mark.slow
def test_a_few_have_right_textbooks_and_a_share_of_the_peak(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--trials", "1", "--workers", "1", "--generator", "halide"]
    assert harness.run("everyday", [*options, *FEW]) == 0
    counts = r"[\d,]{3,} / [\d,]{3,}(?: \([^)]+\))?"
    printed = capsys.readouterr().out
    for name in FEW:
        assert re.search(rf"^\| {name} \| {counts} \| {counts} \| \d+ \| \d+% \|", printed, re.M)


@pytest.mark.nightly
def test_all_have_right_textbooks_and_a_share_of_the_peak_or_a_reason() -> None:
    assert harness.run("everyday", ["--trials", "12"]) == 0
