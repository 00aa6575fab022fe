"""Which floats are accepted in place of others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tuner.measure.cases import CaseSet, case_of
from tuner.measure.image import Image, image_of
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.problem.tolerance import Tolerance

ONE = np.float32(1)
NEXT = np.nextafter(ONE, np.float32(2))
LEAST = np.nextafter(np.float32(0), ONE)
INF, NAN = np.float32(np.inf), np.float32(np.nan)


@pytest.mark.parametrize(
    ("tolerance", "found", "right", "accepted"),
    [
        (Tolerance(), ONE, ONE, True),
        (Tolerance(), -np.float32(0), np.float32(0), True),
        (Tolerance(), NEXT, ONE, False),
        (Tolerance(ulp=1), NEXT, ONE, True),
        (Tolerance(ulp=1), np.nextafter(NEXT, 2 * ONE), ONE, False),
        (Tolerance(ulp=1), -LEAST, LEAST, False),
        (Tolerance(ulp=1), np.float16(1.002), np.float16(1), False),
        (Tolerance(absolute=0.5), np.float32(1.6), ONE, False),
        (Tolerance(relative=0.01), np.float32(100), np.float32(-100), False),
        (Tolerance(1 << 20, 1e30, 1.0), NAN, -NAN, True),
        (Tolerance(1 << 20, 1e30, 1.0), NAN, ONE, False),
        (Tolerance(1 << 20, 1e30, 1.0), INF, INF, True),
        (Tolerance(1 << 20, 1e30, 1.0), np.finfo(np.float32).max, INF, False),
        (Tolerance(1 << 20, 1e30, 1.0), INF, np.finfo(np.float32).max, False),
        (Tolerance(1 << 20, 1e30, 1.0), NAN, INF, False),
    ],
)
def test_what_is_accepted(tolerance: Tolerance, found, right, accepted: bool) -> None:
    pair = (np.array([value], right.dtype) for value in (found, right))
    assert tolerance.accepts(*pair).tolist() == [accepted]


def image(practice_calls: int = 0) -> Image:
    """One row of floats and its copy, which may be off by one step."""
    target = find_target("hexagon-v66")
    specs = [BufferSpec(name, "float32", (1, 100), name) for name in ("input", "output")]
    row = np.linspace(1, 1.9, 100, dtype=np.float32).reshape(1, 100)
    case = case_of("a row", specs, [row, row], Contract.STRIDE, target)
    source, copy = case.arguments
    near = replace(case, arguments=(source, replace(copy, tolerance=Tolerance(ulp=1))))
    return image_of(CaseSet((near,)), target, practice_calls)


def test_an_output_within_its_tolerance_is_right_and_nothing_else_may_change() -> None:
    made = image()
    source, output = made.starts[0]
    for place, said in (
        (output + 4 * 40, None),
        (source + 4 * 40, "changed its input"),
        (output + 4 * 100, "in the row padding"),
    ):
        returned = made.after.copy()
        returned[place] ^= 1
        told = made.difference(returned)
        assert told is None if said is None else said in str(told)
    returned = made.after.copy()
    returned[output + 4 * 40] ^= 4
    assert "1 of 100 elements differ by more than ulp 1 (" in str(made.difference(returned))


def test_calls_on_the_same_inputs_give_the_same_bits() -> None:
    made = image(practice_calls=1)
    returned = made.after.copy()
    returned[made.starts[1][1]] ^= 1
    assert "in another call on the same inputs" in str(made.difference(returned))
    returned[made.starts[0][1]] ^= 1
    assert made.difference(returned) is None
