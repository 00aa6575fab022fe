"""Arrays whose axes change places: code that a seed draws is right, and what has none says why."""

from __future__ import annotations

import random
from collections.abc import Collection

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.generator import HvxGenerator, plan_of
from tuner.codegen.hvx.plan import NoPlanError
from tuner.codegen.hvx.turning import Turn
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
KINDS = (hl.UInt(8), hl.Int(8), hl.Int(16), hl.UInt(32))
ORDERS = ((1, 0), (1, 2, 0), (2, 0, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1, 3))
"""The input's dimension along which each of the output goes, innermost first."""


def problem_of(
    kind: hl.Type,
    order: tuple[int, ...],
    extents: tuple[int, ...],
    contract: Contract,
    back: Collection[int] = (),
) -> Problem:
    """Of those numbered ``back`` the elements are in the other order."""
    names = [f"d{number}" for number in range(len(order))]
    axes, out = list(map(hl.Var, names)), hl.Func("out")
    image = hl.ImageParam(kind, len(order), "image")
    places = [extents[n] - 1 - axis if n in back else axis for n, axis in enumerate(axes)]
    out[axes] = image[[places[order.index(number)] for number in range(len(order))]]
    kernel = find_kernel(keep_pipeline(out))
    return kernel.problem(dict(zip(names, extents, strict=True)), contract, TARGET)


def drawn_problem(dice: random.Random) -> Problem:
    kind, order = dice.choice(KINDS), dice.choice(ORDERS)
    lanes = 8 * 128 // kind.bits()
    contract = dice.choice((Contract.STATIC, Contract.STATIC, Contract.NONE))
    turned = {0, order.index(0)}
    extents = [
        lanes + dice.choice((0, 1, 7, lanes)) if number in turned else dice.randint(1, 5)
        for number in range(len(order))
    ]
    few = [number for number in turned if order[number] in (0, 1) or number == 0]
    if contract is Contract.STATIC and few and dice.random() < 0.5:
        extents[dice.choice(few)] = dice.choice((2, 8, 32, 5, 24, 31))
    is_back = contract is Contract.STATIC and dice.random() < 0.5
    back = dice.sample(range(len(order)), dice.randint(1, len(order))) if is_back else ()
    return problem_of(kind, order, tuple(extents), contract, back)


def is_right(seed: int) -> bool:
    """Whether there is code of the kind for the problem of ``seed``; an error if that is wrong."""
    dice = random.Random(seed)
    problem = drawn_problem(dice)
    try:
        plan = plan_of(find_kernel(problem.workload.kernel), problem)
    except NoPlanError:
        return False
    if not isinstance(plan, Turn):
        return False  # code of another kind, which has its own tests
    require_right(problem, dice, Turn)
    return True


@pytest.mark.slow
def test_code_of_turned_arrays_is_right():
    assert sum(map(is_right, range(8))) >= 4


@pytest.mark.nightly
def test_code_of_many_turned_arrays_is_right():
    assert sum(map(is_right, range(100, 200))) >= 50


@pytest.mark.slow
def test_a_tile_of_bytes_takes_seven_permutations_a_vector():
    """As many packets as there are permutations, and not a third more: 512 x 512 in 16 tiles."""
    problem = problem_of(hl.UInt(8), (1, 0), (512, 512), Contract.STATIC)
    found = by_the_textbook(problem)
    assert 16 * 7 * 64 <= found.packets < 4 / 3 * 16 * 7 * 64


@pytest.mark.parametrize(
    ("order", "extents", "contract", "reason"),
    [
        ((1, 0), (100, 100), Contract.STATIC, "of 100 and 100 elements along the axes"),
        ((1, 2, 0), (256, 2, 16), Contract.NONE, "under static only"),
    ],
)
def test_what_cannot_be_turned_says_why(order, extents, contract, reason):
    problem = problem_of(hl.UInt(8), order, extents, contract)
    with pytest.raises(UserError, match=reason):
        HvxGenerator.space(find_kernel(problem.workload.kernel), problem)
