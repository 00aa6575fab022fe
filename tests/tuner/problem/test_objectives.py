"""Goals of a search, and the Pareto front of figures."""

from __future__ import annotations

from random import Random

import pytest

from tuner.errors import UserError
from tuner.problem.objectives import Front, checked_objectives, figures_of, front_of
from tuner.records.candidate import Measurement


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["cycles", "code_byte"], "did you mean code_bytes"),
        (["code_bytes"], "add cycles"),
        (["cycles", "cycles"], "each objective once"),
        ([], "cycles"),
    ],
)
def test_other_objectives_are_refused(names, told):
    with pytest.raises(UserError) as caught:
        checked_objectives(names)
    error = caught.value
    assert told in f"{error.message} {error.accepted} {error.next_step}"


def test_the_front_is_what_nothing_else_matches_or_beats():
    random = Random(1)
    points = [tuple(random.randrange(9) for _ in range(3)) for _ in range(200)]
    found = front_of(points, lambda point: point)
    beaten = [
        p
        for p in points
        if any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in points)
    ]
    assert found == sorted(set(points) - set(beaten))
    front = Front()
    for point in points:
        front.offer(point)
    assert len(front) == len(found)


def test_what_was_not_counted_is_on_no_front():
    measured = Measurement(
        cycles=5, packets=None, stalls=None, verified=True, fidelity="hardware", device="phone"
    )
    assert figures_of(measured, ("cycles", "code_bytes")) == (5, 0)
    assert figures_of(measured, ("cycles", "vtcm_bytes")) is None
    assert front_of([measured], lambda one: figures_of(one, ("cycles", "vtcm_bytes"))) == []
