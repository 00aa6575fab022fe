"""The estimated gain of further search: how it moves, and the budget that it ends."""

from __future__ import annotations

import random

import pytest

from tests.tuner.search.test_model_samplers import LARGE, bowl
from tests.tuner.space.test_space import TILING
from tuner.records.trial import Budget, RemainingGain
from tuner.search.remaining import LEAST_RESULTS, GainEstimator
from tuner.search.stopping import reason_to_stop


def some_configs(space, count):
    draw = random.Random(3)
    return list({space.sample(draw): None for _ in range(count)})


def test_far_from_the_bottom_much_remains_and_near_it_little():
    configs = some_configs(LARGE, 60)
    at_random = GainEstimator(LARGE, 0).estimate(configs, [bowl(c) for c in configs], ())
    best = {f"k{i}": 3 for i in range(6)} | {"form": "c", "extra": 2}
    near = [type(configs[0])({**best, "k0": k0, "k1": k1}) for k0 in (2, 3, 4) for k1 in (2, 3, 4)]
    both = list(dict.fromkeys([*configs, *near]))
    at_the_bottom = GainEstimator(LARGE, 0).estimate(both, [bowl(c) for c in both], ())
    assert 0.1 < at_random.expected <= at_random.bound
    assert at_the_bottom.expected < 0.3 * at_random.expected
    assert at_the_bottom.reached == 1 - at_the_bottom.expected


def test_nothing_remains_of_a_space_that_is_through():
    every = list(TILING)
    cycles = [100.0 + i for i in range(len(every))]
    assert GainEstimator(TILING, 0).estimate(every, cycles, ()) == RemainingGain(0.0, 0.0)
    lost = every[LEAST_RESULTS:]
    done = every[:LEAST_RESULTS]
    assert GainEstimator(TILING, 0).estimate(done, cycles[: len(done)], lost).bound == 0.0


@pytest.mark.parametrize(
    ("remaining", "stops"),
    [(None, False), (RemainingGain(0.001, 0.02), False), (RemainingGain(0.001, 0.01), True)],
)
def test_a_job_stops_once_the_bound_is_below_what_is_wanted(remaining, stops):
    budget = Budget(trials=None, until_gain=0.01)
    reason = reason_to_stop(budget, 40, 1.0, 5, remaining)
    assert (reason is not None) == stops
    assert not stops or "likely less than 1.00% of the cycles" in reason


def test_no_more_is_left_than_the_peak_allows():
    configs = some_configs(LARGE, 12)
    cycles = [bowl(c) for c in configs]
    free = GainEstimator(LARGE, 5).estimate(configs, cycles, ())
    near = GainEstimator(LARGE, 5, 0.99 * min(cycles)).estimate(configs, cycles, ())
    assert free.bound > 0.02
    assert 0.0 < near.expected <= near.bound <= 0.0100001
    beaten = GainEstimator(LARGE, 5, 2.0 * min(cycles)).estimate(configs, cycles, ())
    assert beaten == free, "a peak that was beaten is none"
