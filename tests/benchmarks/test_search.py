"""The benchmarks of searches: their bars, and the warm start."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks import harness, samplers, transfer
from benchmarks.harness import Report
from benchmarks.search.comparison import Comparison
from benchmarks.search.replay import Replay
from benchmarks.search.tables import write_table
from tests.benchmarks.search.test_tables import tiling_table
from tuner.search.samplers import DEFAULT_SAMPLER

TABLE = replace(tiling_table(fails=lambda c: c["tile"] == 1), notes={"kernel": "tiled"})


@pytest.mark.parametrize(
    ("ours", "theirs", "missed"), [(1.0, 1.0, 0), (1.015, 1.015, 1), (1.05, 1.0, 6)]
)
def test_bars_are_met_or_not_each_by_itself(
    ours: float, theirs: float, missed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two searches that stay where they begin, with some seeds."""
    runs = [
        Replay(TABLE.name, name, seed, tuple([best + seed / 1e5] * 200), 1.0)
        for name, best in ((DEFAULT_SAMPLER, ours), ("other", theirs))
        for seed in range(3)
    ]
    report = Report()
    samplers.judge(Comparison((TABLE,), (DEFAULT_SAMPLER, "other"), tuple(runs)), report)
    said = capsys.readouterr()
    assert said.out.count("MISSED") + len(said.err.splitlines()) == missed
    assert report.missed == bool(missed)


def test_pairs_are_tables_of_one_kernel(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    other = replace(TABLE, name="other")
    stranger = replace(TABLE, name="stranger", notes={"kernel": "else"})
    assert transfer.pairs_of([TABLE, other, stranger]) == [(TABLE, other), (other, TABLE)]
    for table in (TABLE, other):
        write_table(tmp_path / table.name, table)
    paths = [str(tmp_path / name) for name in ("tiling", "other")]
    harness.run("transfer", ["--seeds", "1", *paths])
    said = capsys.readouterr().out
    assert "| tiling | other |" in said
    assert "times the trials, mean of 2 pairs: " in said
    assert not math.isnan(float(said.split("2 pairs: ")[1].split(",")[0]))
