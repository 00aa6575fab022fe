"""Kernel Tuner as a guest of the comparison: what it is given, and that it may be missing."""

from __future__ import annotations

import importlib.util

from benchmarks import kernel_tuner_search
from tests.benchmarks.search.test_tables import tiling_table


def test_there_are_no_guests_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert kernel_tuner_search.guests_installed() == {}


def test_where_it_is_installed_every_strategy_is_a_guest(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    guests = kernel_tuner_search.guests_installed()
    assert [name.split("/")[1] for name in guests] == list(kernel_tuner_search.STRATEGIES)


def test_a_cache_holds_every_row_and_inactive_knobs():
    table = tiling_table(fails=lambda c: c["tile"] == 4)
    cache = kernel_tuner_search.cache_of(table)
    assert cache["tune_params"]["fold"] == ["off", "on", "inactive"]
    assert cache["tune_params"]["tile"] == [1, 2, 4, 8]
    assert len(cache["cache"]) == len(table.rows)
    entry = cache["cache"]["1,plain,inactive,inactive"]
    assert entry["time"] == 100 + 7 * 2 + 1
    assert {e["time"] for e in cache["cache"].values() if e["tile"] == 4} == {"RuntimeFailedConfig"}
