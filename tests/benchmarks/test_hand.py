"""``make bench-hand`` verifies code by hand and a search, and prints a row for each job."""

from __future__ import annotations

import re

import pytest

from benchmarks.hand.__main__ import HERE, JOBS, main


@pytest.mark.slow
def test_a_row_has_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trials", "3", "--workers", "1", "--generator", "hvx"]
    assert main([*options, "sobel 3x3"]) in (0, 1), "1 where the code by hand is ahead"
    counts = r"[\d,]{5,} / [\d,]{5,}"
    printed = capsys.readouterr()
    assert re.search(rf"^\| sobel 3x3 \| {counts} \| {counts} \| `hvx` \|$", printed.out, re.M)
    assert not printed.err, "all code by hand is right"


def test_every_file_by_hand_is_a_job() -> None:
    assert {job.source for job in JOBS.values()} == {path.name for path in HERE.glob("*.c")}


def test_an_unknown_job_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sobel"])
    assert "unknown job 'sobel'; known are dilate 3x3" in capsys.readouterr().err
