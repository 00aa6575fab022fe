"""The benchmark ``hand`` verifies code by hand and a search, and prints a row for each job."""

from __future__ import annotations

import re

import pytest

from benchmarks import harness
from benchmarks.hand.bench import HERE, JOBS, by_hand
from tuner.codegen.hvx.generator import HvxGenerator
from tuner.conformance.patience import PATIENCE_S
from tuner.measure.qemu.measurer import QemuMeasurer


@pytest.mark.nightly
def test_a_row_has_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trials", "3", "--workers", "1", "--generator", "hvx"]
    assert harness.run("hand", [*options, "sobel 3x3"]) in (0, 1), (
        "1 where the code by hand is ahead"
    )
    counts = r"[\d,]{5,} / [\d,]{5,}(?: \([^)]+\))?"
    printed = capsys.readouterr()
    assert re.search(rf"^\| sobel 3x3 \| {counts} \| {counts} \| `hvx` \|$", printed.out, re.M)
    assert "wide" not in printed.err, "all code by hand is right"


@pytest.mark.nightly
@pytest.mark.parametrize("name", JOBS)
def test_all_code_by_hand_is_right(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with HvxGenerator(1, time_limit_s=PATIENCE_S) as generator, QemuMeasurer() as measurer:
        assert by_hand(JOBS[name], generator, measurer).verified
    assert not capsys.readouterr().err, "each way to compile it"


def test_every_file_by_hand_is_a_job() -> None:
    assert {job.source for job in JOBS.values()} == {path.name for path in HERE.glob("*.c")}
