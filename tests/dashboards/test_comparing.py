"""Ratios say how sure they are."""

from __future__ import annotations

import random
from dataclasses import replace

from dashboards.comparing import (
    JOBS_MAY_DIFFER,
    Ratio,
    compared,
    ratio_of,
)
from db.schedules.queries import StoredBest as Best


def best(kernel: str, cycles: int, *samples: int, target: str = "hexagon-v66") -> Best:
    values = (kernel, {"m": 1}, "static", target, "model", "warm")
    return Best(*values, cycles, samples or (cycles,), f"{kernel}-1")


def test_simulators_are_exact_and_hardware_is_not() -> None:
    sides = [best("a", 1736)], [best("a", 1740)]
    (row,) = compared(*sides)
    assert row.ratio == Ratio(1736 / 1740, exact=True)
    assert row.ratio.verdict == "faster", "by little, and for sure"
    phone = [[replace(one, fidelity="hardware") for one in side] for side in sides]
    (row,) = compared(*phone)
    assert row.ratio == Ratio(1736 / 1740)
    assert row.ratio.verdict == "same", "that near, without an interval"


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = random.Random(7)

    def samples(middle: float, spread: float, count: int) -> list[float]:
        return [middle * 2.718281828 ** rng.gauss(0, spread) for _ in range(count)]

    held = 0
    for _ in range(1000):
        found = ratio_of(samples(110, 0.02, 7), samples(100, 0.08, 9))
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.1 <= found.high
    assert held >= 930, "950 or more, less three standard deviations of a binomial"


def test_what_became_slower_comes_first_and_one_sided_last() -> None:
    own = [best("a", 90), best("b", 300), best("c", 100), best("d", 5)]
    other = [best("a", 100), best("b", 100), best("c", 100), best("e", 5)]
    rows = compared(own, other)
    assert [row.kernel for row in rows] == ["b", "c", "a", "d", "e"]
    assert [row.ratio is None for row in rows] == [False, False, False, True, True]


def test_jobs_under_two_contracts_are_compared_but_never_two_fidelities() -> None:
    own = [best("a", 90)]
    for changes, rows in (({"contract": "none"}, 1), ({"fidelity": "hardware"}, 2)):
        other = [replace(best("a", 100), **changes)]
        assert len(compared(own, other, may_differ=JOBS_MAY_DIFFER)) == rows
