"""The comparison with Kernel Tuner: visibly skipped where it is not installed."""

from __future__ import annotations

import importlib.util

import pytest

from benchmarks import kernel_tuner_search
from tests.tuner.search.test_tables import tiling_table
from tuner.search.tables import write_table


@pytest.fixture
def table(tmp_path):
    write_table(tmp_path / "t.jsonl", tiling_table(fails=lambda c: c["tile"] == 4))
    return tmp_path / "t.jsonl"


def test_says_so_where_it_is_not_installed(table, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["search", str(table)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert kernel_tuner_search.main() == 0
    assert "skipped, it is not installed" in capsys.readouterr().out


def test_a_cache_holds_every_row_and_inactive_knobs():
    table = tiling_table(fails=lambda c: c["tile"] == 4)
    cache = kernel_tuner_search.cache_of(table)
    assert cache["tune_params"]["fold"] == ["off", "on", "inactive"]
    assert cache["tune_params"]["tile"] == [1, 2, 4, 8]
    assert len(cache["cache"]) == len(table.rows)
    entry = cache["cache"]["1,plain,inactive,inactive"]
    assert entry["time"] == 100 + 7 * 2 + 1
    assert {e["time"] for e in cache["cache"].values() if e["tile"] == 4} == {"RuntimeFailedConfig"}
