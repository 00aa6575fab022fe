"""Cycles as people are told them: with the range that plausible costs give them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuner.records.candidate import TOLD_FROM, cycles_text


def test_a_range_is_told_in_three_digits() -> None:
    assert cycles_text(68_998, 68_990, 71_012) == "68,998 (to 71,000)"
    assert cycles_text(111_036, 95_180, 167_900) == "111,036 (95.2k to 168k)"
    assert cycles_text(1_063_400, 620_000, 1_063_401) == "1,063,400 (from 620k)"
    assert cycles_text(500) == cycles_text(500, 495, 505) == "500"


@given(st.integers(1, 10**10), st.floats(0.01, 1), st.floats(1, 100))
def test_it_is_told_exactly_where_it_matters_and_rows_stay_short(
    cycles: int, down: float, up: float
) -> None:
    lowest, highest = round(cycles * down), round(cycles * up)
    text = cycles_text(cycles, lowest, highest)
    matters = lowest < (1 - TOLD_FROM) * cycles or highest > (1 + TOLD_FROM) * cycles
    assert text.partition(" ")[0] == f"{cycles:,}"
    assert ("(" in text) == matters
    assert len(text) <= len(f"{cycles:,}") + len(" (999,999 to 999,999)")
