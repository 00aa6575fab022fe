"""The benches of warm start and of stopping: what they count."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks import search_stopping, search_transfer
from benchmarks.search.replay import replay
from benchmarks.search.tables import write_table
from tests.benchmarks.search.test_tables import cycles_of, tiling_table
from tuner.records.trial import RemainingGain
from tuner.search.remaining import LEAST_RESULTS
from tuner.space import Config

TABLE = replace(tiling_table(fails=lambda c: c["tile"] == 1), notes={"kernel": "tiled"})


def test_a_replay_tells_what_it_tried_and_begins_with_what_is_transferred():
    wanted = TABLE.rows[7].config
    run = replay(TABLE, "random", 1, trials=5, starts=True, transfers=[wanted, TABLE.starts[0]])
    assert run.tried[:2] == (wanted, TABLE.starts[0])
    assert len(run.tried) == len(set(run.tried)) == 5


def test_the_fastest_of_a_search_are_valid_and_in_order():
    run = replay(TABLE, "brute", 0, trials=200)
    found = search_transfer.fastest(TABLE, run)
    assert [cycles_of(c) for c in found] == sorted(r.cycles for r in TABLE.rows if r.cycles)[:4]


def test_a_config_becomes_the_nearest_row():
    assert search_transfer.project(TABLE, TABLE.rows[4].config) == TABLE.rows[4].config
    near = search_transfer.project(TABLE, Config({"tile": 3, "form": "plain", "unroll": 1}))
    assert near.as_dict() == {"tile": 4, "form": "plain", "unroll": 1}


def test_pairs_are_tables_of_one_kernel(tmp_path, monkeypatch, capsys):
    other = replace(TABLE, name="other")
    stranger = replace(TABLE, name="stranger", notes={"kernel": "else"})
    assert search_transfer.pairs_of([TABLE, other, stranger]) == [(TABLE, other), (other, TABLE)]
    for table in (TABLE, other):
        write_table(tmp_path / table.name, table)
    paths = [str(tmp_path / name) for name in ("tiling", "other")]
    monkeypatch.setattr("sys.argv", ["bench", "--seeds", "1", *paths])
    assert search_transfer.main() == 0
    assert "2 held-out pairs: " in capsys.readouterr().out


@pytest.mark.parametrize(("ratio", "verdict"), [(0.2, "held"), (0.5, "NOT held")])
def test_the_bar_of_warm_start_is_held_or_not(ratio, verdict):
    said = search_transfer._summary([math.log(ratio)] * 2, held_out=True)
    assert said.startswith(f"2 held-out pairs: {ratio:.2f} times the trials")
    assert said.endswith(f": {verdict}")


def test_a_replay_ends_when_its_best_is_good_enough():
    run = replay(TABLE, "brute", 0, trials=200, enough=1.2)
    assert run.best[-1] <= 1.2 < min(run.best[:-1])


@pytest.mark.parametrize(("bound", "held"), [(0.05, False), (0.1, True)])
def test_a_claim_holds_if_no_more_is_left_than_its_bound(bound, held):
    assert search_stopping.Claim(20, RemainingGain(0.01, bound), 0.1).held == held


def test_claims_are_made_from_ten_results_to_the_end():
    found = search_stopping.claims(TABLE, 0)
    assert found[0].trials >= LEAST_RESULTS
    assert found[-1].trials <= len(TABLE.rows)
    assert found[-1].left == 0.0
