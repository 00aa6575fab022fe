"""Running sums: code that a seed draws is right, and what is summed up otherwise says why."""

from __future__ import annotations

import random

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.generator import HvxGenerator, plan_of
from tuner.codegen.hvx.recurring import Recurrence
from tuner.codegen.hvx.scanning import Scan
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
WAYS = ("across", "down", "across and down", "down and across")


def summed(
    way: str, extents: tuple[int, ...], *, kind: hl.Type, first: int = 1, own: bool = True
) -> hl.Func:
    """Running sums one way after another; of what a stage has itself, or of what it begins with."""
    axes = [hl.Var("x"), hl.Var("y")][: len(extents)]
    value = hl.cast(kind, hl.ImageParam(hl.UInt(8), len(extents), "image")[axes])
    for number, along in enumerate(way.split(" and ")):
        stage, dimension = hl.Func(f"sums_{number}"), ("across", "down").index(along)
        stage[axes] = value
        over = hl.RDom([(first, extents[dimension] - first)], f"over_{number}")
        here = [over.x if n == dimension else axis for n, axis in enumerate(axes)]
        before = [over.x - 1 if n == dimension else axis for n, axis in enumerate(axes)]
        if own or number:
            stage[here] = stage[before] + stage[here]
        else:
            image = hl.ImageParam(hl.UInt(8), len(extents), "image")
            stage[here] = hl.cast(kind, image[here]) + stage[before]
        value = stage[axes]
    return stage


def problem_of(output: hl.Func, extents: tuple[int, ...], contract: Contract) -> Problem:
    kernel = find_kernel(keep_pipeline(output))
    return kernel.problem(dict(zip("xy", extents, strict=False)), contract, TARGET)


def drawn_problem(dice: random.Random) -> Problem:
    extents = dice.choice((128, 129, 200, 384, 500)), dice.choice((1, 5, 8, 19))
    way, kind = dice.choice(WAYS), dice.choice((hl.UInt(32), hl.Int(32)))
    if way == "across" and dice.random() < 0.5:
        extents = extents[:1]
    output = summed(way, extents, kind=kind, own=dice.random() < 0.5)
    return problem_of(output, extents, Contract.STATIC)


@pytest.mark.slow
def test_code_of_running_sums_is_right():
    for seed in range(4):
        dice = random.Random(seed)
        problem = drawn_problem(dice)
        require_right(problem, dice, Scan)


@pytest.mark.nightly
def test_code_of_many_running_sums_is_right():
    for seed in range(100, 160):
        dice = random.Random(seed)
        problem = drawn_problem(dice)
        require_right(problem, dice, Scan)


@pytest.mark.slow
def test_an_integral_image_takes_half_of_what_an_expert_took():
    """In the same simulator; plain C takes 209,045 model cycles."""
    extents = 512, 128
    problem = problem_of(
        summed("across and down", extents, kind=hl.UInt(32)), extents, Contract.STATIC
    )
    found = by_the_textbook(problem)
    assert found.cycles < 14_345 * 0.55


@pytest.mark.parametrize(
    ("extents", "contract", "reason"),
    [
        ((100, 4), Contract.NONE, "its rows have 100 pixels, fewer than 128"),
        ((256, 4), Contract.NONE, "its running sums end where its output does under static only"),
    ],
)
def test_what_is_summed_up_otherwise_says_why(extents, contract, reason):
    problem = problem_of(summed("across", extents, kind=hl.UInt(32)), extents, contract)
    with pytest.raises(UserError, match=reason):
        HvxGenerator.space(find_kernel(problem.workload.kernel), problem)


def test_sums_that_begin_later_are_no_running_sums():
    made = summed("down", (256, 9), kind=hl.UInt(32), first=3)
    problem = problem_of(made, (256, 9), Contract.STATIC)
    assert isinstance(plan_of(find_kernel(problem.workload.kernel), problem), Recurrence)
