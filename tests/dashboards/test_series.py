"""A long course is drawn with few points, and none that matters is left out."""

from __future__ import annotations

import random
from statistics import quantiles

import pytest

from dashboards.charts.course import MOST_DOTS, course
from db.jobs.trials import TrialPoint


def point(number: int, cycles: int | None, at: float | None = None) -> TrialPoint:
    at = float(number) if at is None else at
    return TrialPoint(number, at, at + 1, cycles, cycles, "timeout" if cycles is None else "ok")


def test_a_long_course_keeps_every_improvement_and_the_slowest() -> None:
    rng = random.Random(1)
    cycles = [int(1e6 / (1 + i) + 1e4 * rng.random()) + 1000 for i in range(10_000)]
    drawn = course([point(i, c) for i, c in enumerate(cycles)])
    best, expected = None, set()
    for i, c in enumerate(cycles):
        if best is None or c < best:
            best = c
            expected.add(i)
    assert len(drawn["cycles"]) <= MOST_DOTS + len(expected) + 3
    assert expected <= set(drawn["trial"])
    assert cycles.index(max(cycles)) in drawn["trial"]
    assert drawn["best"][-1] == min(cycles)
    assert drawn["trial"] == sorted(drawn["trial"])
    assert drawn["total"] == 10_000


def test_the_dots_of_a_long_course_are_spread_like_its_trials() -> None:
    """Fastest and slowest of each stretch alone would make two bands with a void between them."""
    rng = random.Random(2)
    cycles = [100_000 + rng.randrange(100_000) for _ in range(6000)]
    drawn = course([point(i, c) for i, c in enumerate(cycles)])
    wanted, shown = (quantiles(values, n=10) for values in (cycles, drawn["cycles"]))
    assert shown == pytest.approx(wanted, rel=0.06)


def test_no_dot_comes_back_once_it_is_left_out() -> None:
    points = [point(i, 1000 + i) for i in range(8000)]
    fewer, more = (set(course(points[:n])["trial"]) for n in (5000, 8000))
    assert {n for n in more if n < 5000} <= fewer


def test_trials_in_flight_together_keep_their_improvements_in_either_order() -> None:
    """Number 1 finishes before number 0: over time it is an improvement, by number it is none."""
    rest = [point(n, 900, at=10.0 + n) for n in range(2, 4000)]
    drawn = course([point(1, 500, at=0.0), point(0, 400, at=5.0), *rest])
    assert drawn["trial"][:2] == [0, 1]
    assert drawn["best"][:2] == [400, 400]
