"""Windows against a template: code that a seed draws is right, and what else there is says why."""

from __future__ import annotations

import random
from contextlib import suppress

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.generator import HvxGenerator, plan_of
from tuner.codegen.hvx.matching import Match
from tuner.codegen.hvx.plan import NoPlanError
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
I8, U8, I16 = hl.Int(8), hl.UInt(8), hl.Int(16)


def problem(
    extents: tuple[int, int],
    window: tuple[int, int],
    kinds: tuple[hl.Type, hl.Type] = (I8, I8),
    *,
    way: str = "product",
    contract: Contract = Contract.STATIC,
) -> Problem:
    """Sums at ``extents`` places over a ``window``, both width first."""
    x, y, out = hl.Var("x"), hl.Var("y"), hl.Func("out")
    over = hl.RDom([(0, extent) for extent in window], "over")
    image, template = (hl.ImageParam(kind, 2, f"input_{n}") for n, kind in enumerate(kinds))
    pixel, tap = image[x + over.x, y + over.y], template[over.x, over.y]
    if way == "difference":
        out[x, y] = hl.sum(hl.i32(hl.absd(pixel, tap)))
    elif way == "turned":
        out[x, y] = hl.sum(hl.i32(pixel) * hl.i32(template[over.y, over.x]))
    elif way == "narrow":
        out[x, y] = hl.sum(hl.i32(hl.cast(hl.UInt(8), pixel) * hl.cast(hl.UInt(8), tap)))
    elif kinds == (I8, I8):
        out[x, y] = 0
        out[x, y] += hl.i32(hl.i16(tap) * hl.i16(pixel))
    else:
        out[x, y] = hl.sum(hl.i32(pixel) * hl.i32(tap))
    kernel = find_kernel(keep_pipeline(out))
    return kernel.problem(dict(zip("xy", extents, strict=True)), contract, TARGET)


def drawn_problem(dice: random.Random) -> Problem:
    extents = dice.choice((128, 129, 200, 300)), dice.choice((1, 2, 5, 12))
    window = dice.choice((1, 2, 3, 4, 7, 9, 16, 33)), dice.choice((1, 2, 3, 5, 16))
    kinds = (dice.choice((U8, I8)), dice.choice((U8, I8)))
    contract = dice.choice((Contract.STATIC, Contract.NONE, Contract.HOST))
    if dice.random() < 0.4:
        return problem(extents, window, (U8, U8), way="difference", contract=contract)
    return problem(extents, window, kinds, contract=contract)


def require_matched(seed: int) -> None:
    dice = random.Random(seed)
    drawn = drawn_problem(dice)
    require_right(drawn, dice, Match)


@pytest.mark.slow
def test_code_of_windows_is_right():
    for seed in range(5):
        require_matched(seed)


@pytest.mark.nightly
def test_code_of_many_windows_is_right():
    for seed in range(100, 160):
        require_matched(seed)


@pytest.mark.slow
def test_a_correlation_takes_less_than_an_expert_took():
    """In the same simulator; the best of Halide's took 343,081 model cycles."""
    asked = problem((512, 64), (16, 16))
    found = by_the_textbook(asked)
    assert found.cycles < 44_267 * 0.96


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"extents": (100, 4)}, "its rows have 100 sums, fewer than 128"),
        ({"window": (129, 2)}, "its window of 2 rows of 129 is not within a vector"),
        ({"way": "difference"}, "its differences are of signed bytes"),
    ],
)
def test_what_has_no_code_says_why(asked, reason):
    made = problem(**{"extents": (256, 4), "window": (4, 4), **asked})
    with pytest.raises(UserError, match=reason):
        HvxGenerator.space(find_kernel(made.workload.kernel), made)


@pytest.mark.parametrize("way", ["turned", "narrow"])
def test_other_sums_are_no_windows_against_a_template(way):
    made = problem((256, 4), (4, 4), way=way)
    with suppress(NoPlanError):
        assert not isinstance(plan_of(find_kernel(made.workload.kernel), made), Match)
