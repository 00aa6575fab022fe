"""The benchmarks of searches: their bars, and the warm start."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks import harness, transfer
from benchmarks.search.tables import write_table
from tests.benchmarks.search.test_tables import tiling_table

TABLE = replace(tiling_table(fails=lambda c: c["tile"] == 1), notes={"kernel": "tiled"})


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
