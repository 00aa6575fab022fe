"""One sampler against another: ratios paired by table and seed, and what they entitle to say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.search.comparison import (
    PairedRatio,
    Verdict,
    paired,
)
from benchmarks.search.replay import Replay
from tests.benchmarks.search.test_tables import tiling_table

TABLE = tiling_table()


def run(sampler, seed, best, table="tiling"):
    return Replay(table, sampler, seed, (best,), 1.0)


def test_pairing_takes_out_what_seeds_share():
    """Runs that differ by a factor of 2 between seeds, and by 10 % within each."""
    runs = [run("one", s, 1.0 * 2**s) for s in range(3)] + [
        run("other", s, 1.1 * 2**s) for s in range(3)
    ]
    pair = paired((TABLE,), runs, "one", "other", 20)
    assert pair.ratio == pytest.approx(1 / 1.1)
    assert pair.interval == pytest.approx((1 / 1.1, 1 / 1.1))
    assert pair.verdict is Verdict.BETTER
    assert paired((TABLE,), runs, "other", "one", 20).verdict is Verdict.WORSE


def test_tables_count_alike_and_the_worst_is_named():
    good, bad = replace(TABLE, name="good"), replace(TABLE, name="bad")
    runs = [run("one", s, 1.0, "good") for s in range(9)] + [run("one", 0, 4.0, "bad")]
    runs += [run("other", s, 1.0, "good") for s in range(9)] + [run("other", 0, 1.0, "bad")]
    pair = paired((good, bad), runs, "one", "other", 50)
    assert pair.ratio == pytest.approx(2.0)
    assert (pair.worst_table, pair.worst_ratio) == ("bad", pytest.approx(4.0))


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((0.8, 0.99), "better"),
        ((1.0, 1.0), "no worse"),
        ((0.9, 1.2), "undecided"),
        ((1.001, 1.002), "worse"),
    ],
)
def test_verdicts_follow_from_the_interval(interval, verdict):
    assert PairedRatio("one", "other", 20, 1.0, interval, "t", 1.0).verdict == verdict
