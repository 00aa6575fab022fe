"""Products of matrices: code that a seed draws is right, and what else there is says why."""

from __future__ import annotations

import random

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.generator import HvxGenerator
from tuner.codegen.hvx.multiplying import Product
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
I8, U8, I16, U16 = hl.Int(8), hl.UInt(8), hl.Int(16), hl.UInt(16)
KINDS = ((U8, U8), (U8, I8), (I8, U8), (I8, I8), (U16, U16), (I16, I16))


def problem(
    sizes: tuple[int, int, int],
    kinds: tuple[hl.Type, hl.Type] = (U8, U8),
    contract: Contract = Contract.STATIC,
) -> Problem:
    """Of m rows, n columns, and k elements along a sum."""
    m, n, k = sizes
    x, y, out = hl.Var("x"), hl.Var("y"), hl.Func("out")
    a, b = hl.ImageParam(kinds[0], 2, "a"), hl.ImageParam(kinds[1], 2, "b")
    along = hl.RDom([(0, k)], "along")
    out[x, y] = hl.sum(hl.u32(a[along.x, y]) * hl.u32(b[x, along.x]))
    kernel = find_kernel(keep_pipeline(out))
    return kernel.problem({"x": n, "y": m}, contract, TARGET)


def drawn_problem(dice: random.Random) -> Problem:
    m = dice.choice((1, 2, 3, 5, 8, 13, 16, 33, 40))
    n = dice.choice((1, 3, 31, 32, 33, 40, 64, 100, 127, 128, 129, 200, 257))
    k = dice.choice((1, 2, 3, 4, 7, 40, 48, 56, 64, 100, 129))
    contract = dice.choice((Contract.STATIC, Contract.STATIC, Contract.NONE, Contract.STRIDE))
    if dice.random() < 0.3:
        kernel = find_kernel(dice.choice(("gemm_u8", "gemm_i8")))
        return kernel.problem({"m": m, "n": n, "k": k}, contract, TARGET)
    return problem((m, n, k), dice.choice(KINDS), contract)


def require_multiplied(seed: int) -> None:
    dice = random.Random(seed)
    require_right(drawn_problem(dice), dice, Product)


@pytest.mark.slow
def test_code_of_products_is_right():
    for seed in range(8):
        require_multiplied(seed)


@pytest.mark.nightly
def test_code_of_many_products_is_right():
    for seed in range(100, 200):
        require_multiplied(seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "kinds", "most"),
    [((100, 100, 100), (U16, U16), 20_700), ((1, 1000, 1280), (U8, U8), 112_000)],
)
def test_products_take_few_packets(sizes, kinds, most):
    """Halide's best took 91,995 and 193,277 model cycles."""
    assert by_the_textbook(problem(sizes, kinds)).cycles < most


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"kinds": (U8, U16)}, "it multiplies u8 by u16"),
        ({"sizes": (60_000, 40, 300), "kinds": (I8, I8)}, "copies of its inputs take more"),
    ],
)
def test_what_has_no_code_says_why(asked, reason):
    made = problem(**{"sizes": (4, 40, 4), **asked})
    with pytest.raises(UserError, match=reason):
        HvxGenerator.space(find_kernel(made.workload.kernel), made)
