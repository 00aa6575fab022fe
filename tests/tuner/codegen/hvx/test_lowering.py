"""Which operations a filter takes, and what stays in registers."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from tuner.codegen.hvx.lowering import fewest, lowered
from tuner.codegen.hvx.sliding import Window
from tuner.kernels import find_kernel
from tuner.kernels.pixel import (
    NotAStencilError,
    Pixel,
    at,
    clamped,
    constant,
    maximum,
)

AROUND = (-1, 0, 1)


def computed(expression: Pixel, rows: int) -> Counter[str]:
    """The operations of an iteration, but for taps."""
    window = Window(*lowered(expression), rows)
    names = (window.operation(*one).name for one in window.computed)
    return Counter(name for name in names if name != "tap")


def kept(expression: Pixel, rows: int) -> int:
    """Registers that an iteration takes over from the one before, for each vector of columns."""
    window = Window(*lowered(expression), rows)
    return sum(2 if value.is_wide else 1 for value, _ in window.kept)


def weighted(weights: dict[tuple[int, int], int]) -> Pixel:
    total = constant(0)
    for offset, weight in weights.items():
        total += weight * at(*offset)
    return total


def dilated() -> Pixel:
    return maximum(*(at(dx, dy) for dx, dy in product(AROUND, repeat=2)))


def test_a_binomial_filter_is_two_multiplications_and_sums_of_neighbours():
    gaussian = find_kernel("gaussian5x5_u8").pixel({})
    once = {"vtmpybus": 1, "vtmpybus_acc": 1, "vaddh_dv": 4, "vrounduhub": 1}
    assert computed(gaussian, 1) == once
    assert computed(gaussian, 4) == {name: 4 * count for name, count in once.items()}
    assert kept(gaussian, 1) == 4 * 2


@pytest.mark.parametrize(("rows", "maxima"), [(1, 4), (2, 4 + 3), (4, 8 + 6)])
def test_two_rows_of_a_dilation_share_the_maximum_between_them(rows, maxima):
    """Two along a row; down, two for one row, three for two."""
    assert computed(dilated(), rows) == {"vmaxub": maxima}
    assert kept(dilated(), rows) == 2


@pytest.mark.parametrize("weights", [(-128, 127, 1), (2, 3, 5, 7)])
def test_the_multiplications_of_a_row_add_up_to_its_weights(weights):
    taps = tuple((dx, weight) for dx, weight in enumerate(weights) if weight)
    added: Counter[int] = Counter()
    for operation, places, factors in fewest(taps):
        assert all(-128 <= factor < 128 for factor in factors)
        if operation == "vtmpybus":
            places = (places[0], places[0] + 1, places[1])
            factors = (*factors, 1)
        for place, factor in zip(places, factors, strict=False):
            added[place] += factor
    assert {place: weight for place, weight in added.items() if weight} == dict(taps)


@pytest.mark.parametrize(
    ("weights", "reason"),
    [({(-1, 0): 100, (0, 0): 100, (1, 0): -90, (0, 1): 120}, "a value reaches")],
)
def test_what_16_bits_do_not_hold_is_refused(weights, reason):
    with pytest.raises(NotAStencilError, match=reason):
        lowered(clamped(weighted(weights)))
