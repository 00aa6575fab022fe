"""Figures of samples: right whatever their distribution, steady under outliers, frugal."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.measure import statistics
from tuner.measure.statistics import (
    least_samples,
    median,
    median_interval,
    more_repeats,
    throttled,
)

CYCLES = st.integers(1, 10**12)
SAMPLES = st.lists(CYCLES, min_size=1, max_size=60)


@given(SAMPLES)
def test_an_interval_lies_around_the_median_and_within_the_samples(samples: list[int]) -> None:
    interval = median_interval(samples)
    assert min(samples) <= interval.low <= median(samples) <= interval.high <= max(samples)
    assert interval.holds(median(samples))


@pytest.mark.parametrize(("count", "low", "high"), [(6, 1, 6), (50, 18, 33)])
def test_the_order_statistics_are_those_of_the_tables(count: int, low: int, high: int) -> None:
    """The 95 % intervals that textbooks list."""
    interval = median_interval(range(1, count + 1))
    assert (interval.low, interval.high) == (low, high)


@pytest.mark.parametrize("count", [11])
def test_an_interval_covers_as_often_as_it_says(count: int) -> None:
    """With a skewed distribution, whose median is known: exponential, ln 2."""
    dice = random.Random(f"coverage {count}")
    rounds = 4000
    coverage = median_interval(range(count)).coverage
    hits = sum(
        median_interval([dice.expovariate(1.0) for _ in range(count)]).holds(math.log(2))
        for _ in range(rounds)
    )
    error = 4 * math.sqrt(coverage * (1 - coverage) / rounds)
    assert hits / rounds == pytest.approx(coverage, abs=error)


class TestMoreRepeats:
    @given(SAMPLES, st.none() | CYCLES, st.integers(1, 200))
    def test_never_asks_for_more_than_there_may_be(
        self, samples: list[int], incumbent: int | None, most: int
    ) -> None:
        asked = more_repeats(samples, incumbent, most=most)
        assert 0 <= asked <= max(0, most - len(samples))
        assert asked <= max(len(samples), least_samples())

    @pytest.mark.parametrize("candidate", [900, 1000])
    def test_repeating_ends_and_decides_rightly(self, candidate: int) -> None:
        """Noise of 3 %, one sample of ten hit by something else; the incumbent takes 1000."""
        decided = total = 0
        for seed in range(60):
            dice = random.Random(f"{candidate} {seed}")
            samples: list[int] = []
            asked = 3
            while asked:
                samples += [_noisy(candidate, dice) for _ in range(asked)]
                asked = more_repeats(samples, 1000, most=60)
            total += len(samples)
            decided += (median(samples) < 1000) == (candidate < 1000)
        if candidate != 1000:
            assert decided >= 54
        if abs(candidate - 1000) == 100:
            assert total / 60 < 12, "far ones are cheap"


def _noisy(cycles: int, dice: random.Random) -> int:
    disturbed = 1.5 if dice.random() < 0.1 else 1.0
    return round(cycles * dice.gauss(1, 0.03) * disturbed)


class TestThrottled:
    @pytest.mark.parametrize("reference", [[1000, 1001, 1070, 1071], [1071, 1070, 1001, 1000]])
    def test_a_speed_that_changes_within_a_batch_is_found(self, reference: list[int]) -> None:
        found = throttled(reference, 1000)
        assert found is not None
        assert "late in the batch" in found.reason
        assert max(found.drift, 1 / found.drift) > statistics.DRIFTED_AT
