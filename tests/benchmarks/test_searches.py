"""The bench of searches: guests beside our samplers, and what its bars say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import search_cost, searches
from benchmarks.search.comparison import Comparison, compare
from benchmarks.search.replay import Replay, replay
from benchmarks.search.tables import write_table
from tests.benchmarks.search.test_tables import tiling_table
from tuner.search.samplers import DEFAULT_SAMPLER
from tuner.space import Knob, Space

TABLE = tiling_table()


def comparison(ours, theirs):
    """Two searches that stay where they begin, with some seeds."""
    runs = [
        Replay(TABLE.name, name, seed, tuple([best + seed / 1e5] * 200), 1.0)
        for name, best in ((DEFAULT_SAMPLER, ours), ("other", theirs))
        for seed in range(3)
    ]
    return Comparison((TABLE,), (DEFAULT_SAMPLER, "other"), tuple(runs))


def test_bars_are_held_or_not_each_by_itself():
    lines = list(searches.verdicts(comparison(1.02, 1.02)))
    assert [line.endswith(", held") for line in lines[:5]] == [True, False, False, True, True]
    assert f"{TABLE.name} 1.0200" in lines[3]
    assert all("no worse than each of 1 others: held" in line for line in lines[5:])
    assert len(lines) == 9


def test_a_search_that_is_behind_is_named_with_its_ratio():
    lines = list(searches.verdicts(comparison(1.1, 1.0)))
    assert lines[3].endswith("NOT held")
    assert "NOT held: other worse (1.1000" in lines[5]
    assert f"on {TABLE.name}" in lines[5]


def guest(table, seed):
    """A search of others: brute force under a name of its own."""
    return replace(replay(table, "brute", seed, trials=10), sampler="theirs")


@pytest.mark.slow
def test_guests_have_the_same_tables_and_seeds(tmp_path):
    write_table(tmp_path / "tiling", TABLE)
    items = list(
        compare([tmp_path / "tiling"], ["random"], seeds=2, workers=1, guests={"theirs": guest})
    )
    found = items[-1]
    assert found.samplers == ("random", "theirs")
    assert {(r.sampler, r.seed) for r in found.runs} == {
        (name, seed) for name in found.samplers for seed in (0, 1)
    }
    assert {pair.other for pair in found.pairs()} == {"theirs"}


def test_made_up_cycles_repeat_and_some_fail():
    space = Space("any", tuple(Knob(f"k{i}", (1, 2, 3), "") for i in range(4)))
    found = [search_cost.made_up(config) for config in space]
    assert found == [search_cost.made_up(config) for config in space]
    assert 0 < found.count(None) < len(found) / 2
    assert len(set(found)) > len(found) / 2


def test_cost_is_told_by_blocks_of_trials(monkeypatch):
    monkeypatch.setattr(search_cost, "BLOCK", 10)
    space = Space("any", tuple(Knob(f"k{i}", (1, 2, 3), "") for i in range(3)))
    blocks = list(search_cost.cost(space, 40, in_flight=3))
    assert [block.trials for block in blocks] == [10, 20]  # the space has 27
    assert all(block.own_ms > 0 for block in blocks)
