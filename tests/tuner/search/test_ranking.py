"""What pairs of two fidelities say of candidates that were measured at the lower one only."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.records.candidate import Fidelity, Measurement
from tuner.search.ranking import FidelityPair, agreement, fit, kendall_tau


def measured(cycles: float, fidelity: Fidelity = "model", **breakdown: int) -> Measurement:
    return Measurement(round(cycles), None, None, True, fidelity, "d", breakdown=breakdown)


def pair(number: int, low: Measurement, high: float) -> FidelityPair:
    return FidelityPair(number, low, measured(high, "hardware"))


def kernel(dice: random.Random) -> Measurement:
    issue, ddr = dice.randint(1_000, 50_000), dice.randint(0, 50_000)
    return measured(issue + ddr, issue=issue, ddr=ddr)


def on_phone(low: Measurement, dice: random.Random, noise: float = 0.01) -> float:
    """DDR costs three times what the model takes it for."""
    return 1.4 * (low.breakdown["issue"] + 3 * low.breakdown["ddr"]) * dice.gauss(1, noise)


def drawn(count: int, seed: int = 0) -> list[FidelityPair]:
    dice = random.Random(seed)
    return [pair(n, low := kernel(dice), on_phone(low, dice)) for n in range(count)]


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=2, unique=True), st.integers(1, 50))
def test_one_or_two_pairs_give_a_factor_and_leave_the_order(cycles: list[int], by: int) -> None:
    ranking = fit([pair(n, measured(c), by * c) for n, c in enumerate(cycles)])
    assert ranking.predict(measured(1000)) == pytest.approx(1000 * by)
    assert math.isinf(ranking.strength)


def test_what_the_model_gets_wrong_by_cause_is_learnt() -> None:
    dice = random.Random(2)
    ranking = fit(drawn(12))
    fresh = [kernel(dice) for _ in range(40)]
    truth = [on_phone(low, dice) for low in fresh]
    by_model = kendall_tau([low.cycles for low in fresh], truth)
    by_fit = kendall_tau([ranking.predict(low) for low in fresh], truth)
    assert by_model is not None
    assert by_fit is not None
    assert by_fit > by_model + 0.05
    assert by_fit > 0.9


def test_agreement_is_told_with_the_fits_own_by_leaving_each_out() -> None:
    found = agreement(drawn(15))
    assert found.pairs == 15
    assert found.factor is not None
    assert 1.4 < found.factor < 4.2
    assert found.tau is not None
    assert found.fitted_tau is not None
    assert found.fitted_tau > found.tau
    assert found.error is not None
    assert 0 < found.error < 0.2
