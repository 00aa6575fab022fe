"""Recurrences down and along rows: code that is drawn is right, and the rest says why not."""

from __future__ import annotations

import random

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.generator import HvxGenerator
from tuner.codegen.hvx.kinds import Turned
from tuner.codegen.hvx.recurring import Recurrence
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
X, Y = hl.Var("x"), hl.Var("y")
U8, I16, U16, I32 = hl.UInt(8), hl.Int(16), hl.UInt(16), hl.Int(32)
WAYS = ("greatest", "smooth", "two before", "with another", "sums", "later")
KINDS = {"greatest": (U8, U8), "sums": (U16, hl.UInt(32)), "two before": (I16, I32)}
"""Of the image and of the output; else bytes and halfwords."""


def problem(
    way: str, size: tuple[int, int], *, along: bool, contract: Contract = Contract.STATIC
) -> Problem:
    """Of rows or columns of an image, the next from those before as ``way`` says."""
    own, made = KINDS.get(way, (U8, I16))
    image, gain = hl.ImageParam(own, 2, "image"), hl.ImageParam(U8, 2, "gain")
    out, extent = hl.Func("out"), size[0] if along else size[1]
    first = 2 if way == "two before" else 5 if way == "later" else 1
    over = hl.RDom([(first, extent - first)], "over").x

    def at(back: int = 0) -> tuple[hl.Expr, hl.Expr]:
        return (over - back, Y) if along else (X, over - back)

    out[X, Y] = hl.cast(made, image[X, Y])
    before, here = out[at(1)], out[at()]
    if way == "backwards":
        out[at()] = hl.max(out[at(-1)], here)
    elif way == "greatest":
        out[at()] = hl.max(before, here)
    elif way in ("smooth", "later"):
        out[at()] = hl.i16((hl.i32(before) * 3 + (hl.i32(here) << 4) + 2) >> 2)
    elif way == "two before":
        out[at()] = (before + out[at(2)] * 3 + here) >> 2
    elif way == "with another":
        out[at()] = hl.i16_sat(hl.i32(before) - (before >> 2) + hl.i32(gain[at()]))
    else:
        out[at()] = before + here
    kernel = find_kernel(keep_pipeline(out))
    return kernel.problem(dict(zip("xy", size, strict=True)), contract, TARGET)


def drawn_problem(dice: random.Random, *, along: bool) -> Problem:
    wide, few = dice.choice((128, 130, 200, 300)), dice.choice((7, 40, 64, 129, 140))
    return problem(dice.choice(WAYS), (wide, few), along=along)


@pytest.mark.slow
@pytest.mark.parametrize(("along", "kind"), [(False, Recurrence), (True, Turned)])
def test_code_of_recurrences_is_right(along, kind):
    dice = random.Random(1)
    require_right(drawn_problem(dice, along=along), dice, kind)


@pytest.mark.nightly
@pytest.mark.parametrize(("along", "kind"), [(False, Recurrence), (True, Turned)])
@pytest.mark.parametrize("seed", range(100, 130))
def test_code_of_many_recurrences_is_right(seed, along, kind):
    dice = random.Random(seed)
    require_right(drawn_problem(dice, along=along), dice, kind)


@pytest.mark.slow
def test_turning_is_cheaper_than_one_after_the_other():
    """A step of plain C for each of the elements takes some ten cycles."""
    made = problem("smooth", (512, 64), along=True)
    assert by_the_textbook(made).cycles < 512 * 64


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"size": (60, 20)}, "its rows have 60 elements, fewer than 128"),
        ({"way": "backwards"}, "whole rows"),
    ],
)
def test_what_has_no_code_says_why(asked, reason):
    made = problem(**{"way": "greatest", "size": (200, 40), "along": False, **asked})
    with pytest.raises(UserError, match=reason):
        HvxGenerator.space(find_kernel(made.workload.kernel), made)
