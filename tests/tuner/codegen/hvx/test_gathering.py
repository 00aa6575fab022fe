"""Elements that other inputs choose: drawn code is right, and what has none says why."""

from __future__ import annotations

import random

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.gathering import Gather
from tuner.codegen.hvx.generator import HvxGenerator, plan_of
from tuner.codegen.hvx.strips import Stencil
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
U8, I8, U16, I16, I32 = hl.UInt(8), hl.Int(8), hl.UInt(16), hl.Int(16), hl.Int(32)
WAYS = ("table", "image", "moved", "planes", "row")
X, Y, PLANE = hl.Var("x"), hl.Var("y"), hl.Var("plane")


def problem(
    way: str,
    size: tuple[int, int] = (300, 12),
    source: tuple[int, int] = (512, 64),
    kinds: tuple[hl.Type, hl.Type] = (U8, I16),
    contract: Contract = Contract.STATIC,
) -> Problem:
    """Of elements of the first of ``kinds``, by numbers of the second."""
    rank = {"table": 1, "planes": 3}.get(way, 2)
    image, out = hl.ImageParam(kinds[0], rank, "image"), hl.Func("out")
    across, down = (hl.ImageParam(kinds[1], 2, name) for name in ("across", "down"))

    def held(index: hl.Expr, dimension: int = 0) -> hl.Expr:
        return hl.clamp(hl.i32(index), 0, image.dim(dimension).extent() - 1)

    column, row = held(across[X, Y]), held(down[X, Y], 1) if rank > 1 else None
    if way == "table":
        out[X, Y] = image[column]
    elif way == "image":
        out[X, Y] = image[column, row]
    elif way == "moved":
        out[X, Y] = image[held(X + hl.i32(across[X, Y])), held(Y - hl.i32(down[X, Y]), 1)]
    elif way == "planes":
        out[X, Y, PLANE] = image[column, row, PLANE]
    elif way == "row":
        out[X, Y] = image[column, Y]
    elif way == "sums":
        out[X, Y] = image[held(X + hl.i32(across[X, Y]) + hl.i32(down[X, Y])), Y]
    elif way == "product":
        out[X, Y] = image[held(hl.i32(across[X, Y]) * hl.i32(down[X, Y])), Y]
    kernel = find_kernel(keep_pipeline(out))
    sizes = {"x": size[0], "y": size[1], "plane": 2, "image_0": source[0], "image_1": source[1]}
    known = {param.name for param in kernel.params}
    given = {name: value for name, value in sizes.items() if name in known}
    return kernel.problem(given, contract, TARGET)


def drawn_problem(dice: random.Random) -> Problem:
    way = dice.choice(WAYS)
    contract = dice.choice((Contract.STATIC, Contract.STATIC, Contract.NONE, Contract.HOST))
    kinds = dice.choice((U8, I8, U16, I16)), dice.choice((U8, I8, U16, I16, I32))
    if way == "moved":
        kinds = kinds[0], dice.choice((U8, I8, I16))
    size = dice.choice((128, 129, 200, 520)), dice.choice((1, 2, 5, 12))
    source = {"table": (dice.choice((256, 600, 4096, 30_000)), 1)}.get(way)
    source = source or (dice.choice((37, 130, 300)), dice.choice((1, 40, 300)))
    return problem(way, size, source, kinds, contract)


def require_gathered(seed: int) -> None:
    dice = random.Random(seed)
    require_right(drawn_problem(dice), dice, Gather)


@pytest.mark.slow
def test_code_of_what_others_choose_is_right():
    for seed in range(6):
        require_gathered(seed)


@pytest.mark.nightly
def test_code_of_much_that_others_choose_is_right():
    for seed in range(100, 170):
        require_gathered(seed)


@pytest.mark.slow
def test_a_remap_takes_less_than_an_expert_took():
    """In the same simulator, with a gather at a time; the best of Halide's took 64,151."""
    assert by_the_textbook(problem("image", (512, 64))).cycles < 20_925 * 0.5


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"size": (30, 4)}, "its rows have 120 elements, fewer than 128"),
        ({"source": (600, 500)}, "300,000 bytes that it chooses from exceed VTCM"),
        ({"way": "sums"}, "it adds up more than two numbers of 15 bits"),
        ({"way": "moved", "kinds": (U8, U16)}, "it adds up more than two numbers of 15 bits"),
        ({"kinds": (hl.UInt(32), I16)}, "its elements have other than 8 or 16 bits"),
    ],
)
def test_what_has_no_code_says_why(asked, reason):
    made = problem(**{"way": "image", **asked})
    with pytest.raises(UserError, match=reason):
        HvxGenerator.space(find_kernel(made.workload.kernel), made)


def test_products_as_indices_have_no_code():
    made = problem("product")
    with pytest.raises(UserError, match="no code"):
        HvxGenerator.space(find_kernel(made.workload.kernel), made)


def test_a_table_of_bytes_by_bytes_is_a_stencils():
    made = problem("table", source=(256, 1), kinds=(U8, U8))
    assert isinstance(plan_of(find_kernel(made.workload.kernel), made), Stencil)
