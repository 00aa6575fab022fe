"""A long course is drawn with few points, and none that matters is left out."""

from __future__ import annotations

import random

from dashboards.pages.job import STRETCHES, course, worked_seconds
from db.jobs.trials import TrialPoint


def point(number: int, cycles: int | None, at: float | None = None) -> TrialPoint:
    at = float(number) if at is None else at
    return TrialPoint(number, at, at + 1, cycles)


def test_a_short_course_is_whole() -> None:
    drawn = course([point(0, 90), point(1, None), point(2, 50), point(3, 70)])
    assert drawn["order"] == [1, 3, 4]
    assert drawn["trial"] == [0, 2, 3]
    assert drawn["cycles"] == [90, 50, 70]
    assert drawn["best"] == [90, 50, 50]
    assert drawn["seconds"] == [1.0, 3.0, 4.0]


def test_a_long_course_keeps_every_improvement_and_the_extremes() -> None:
    rng = random.Random(1)
    cycles = [int(1e6 / (1 + i) + 1e4 * rng.random()) + 1000 for i in range(10_000)]
    drawn = course([point(i, c) for i, c in enumerate(cycles)])
    assert len(drawn["cycles"]) < 4 * STRETCHES
    best, expected = None, set()
    for i, c in enumerate(cycles):
        if best is None or c < best:
            best = c
            expected.add(i)
    assert expected <= set(drawn["trial"])
    assert {cycles.index(min(cycles)), cycles.index(max(cycles))} <= set(drawn["trial"])
    assert drawn["best"][-1] == min(cycles)
    assert drawn["order"] == sorted(drawn["order"])
    assert drawn["total"] == 10_000


def test_breaks_between_sessions_take_no_time() -> None:
    points = [point(0, 9, at=0.0), point(1, 8, at=1.0), point(2, 7, at=90_000.0)]
    assert worked_seconds(points) == [1.0, 2.0, 3.0]


def test_nothing_yet_is_an_empty_course() -> None:
    assert course([])["cycles"] == []
