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
KERNELS = ("gemm_u8", "gemm_i8", "gemm_u8_packed", "gemm_i8_packed", "qgemm_u8")
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


def quantized(
    sizes: tuple[int, int, int],
    kinds: tuple[hl.Type, hl.Type] = (U8, U8),
    made: hl.Type = U8,
    contract: Contract = Contract.STATIC,
) -> Problem:
    """Of elements without their zero points, scaled by numbers of columns or one of all."""
    m, n, k = sizes
    x, y, sums, out = hl.Var("x"), hl.Var("y"), hl.Func("sums"), hl.Func("out")
    a, b = hl.ImageParam(kinds[0], 2, "a"), hl.ImageParam(kinds[1], 2, "b")
    bias, scales, zeros = (hl.ImageParam(hl.Int(32), 1, name) for name in ("c", "d", "e"))
    along = hl.RDom([(0, k)], "along")
    sums[x, y] = bias[x]
    element = hl.i32(b[x, along.x])
    sums[x, y] += (hl.i32(a[along.x, y]) - zeros[0]) * (element - 3 if k % 2 else element)
    scaled = hl.rounding_mul_shift_right(sums[x, y], scales[x if n % 2 else 0], hl.u32(31))
    moved = hl.saturating_add(hl.i16_sat(scaled), hl.i16(a.type().is_int() * 100 - 7))
    ended = hl.saturating_cast(made, moved)
    out[x, y] = hl.max(ended, hl.cast(made, 3))
    kernel = find_kernel(keep_pipeline(out))
    return kernel.problem({"x": n, "y": m}, contract, TARGET)


def drawn_problem(dice: random.Random) -> Problem:
    m = dice.choice((1, 2, 3, 5, 8, 13, 16, 33, 40))
    n = dice.choice((1, 3, 31, 32, 33, 40, 64, 100, 127, 128, 129, 200, 257))
    k = dice.choice((1, 2, 3, 4, 7, 40, 48, 56, 64, 100, 129))
    contract = dice.choice((Contract.STATIC, Contract.STATIC, Contract.NONE, Contract.STRIDE))
    way = dice.random()
    if way < 0.3:
        made = dice.choice((U8, I8, I16, U16))
        return quantized((m, n, k), dice.choice(KINDS), made, contract)
    if way < 0.6:
        kernel = find_kernel(dice.choice(KERNELS))
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
    [
        ((100, 100, 100), (U16, U16), 20_592),
        ((1, 1000, 1280), (U8, U8), 92_000),
        ((8, 512, 512), (U8, U8), 10_200),
        ((256, 256, 256), (U8, U8), 68_700),
    ],
)
def test_products_take_few_packets(sizes, kinds, most):
    """Halide's best took 91,995 and 193,277 cycles; the last two have 8,192 and 65,536 packets of
    products."""
    assert by_the_textbook(problem(sizes, kinds)).cycles < most


@pytest.mark.slow
def test_awkward_depths_of_quantized_products_are_no_cliff():
    """They took 37,761 model cycles where a depth of 64 took 6,033."""
    kernel = find_kernel("qgemm_u8")
    asked = kernel.problem({"m": 64, "n": 64, "k": 48}, Contract.STATIC, TARGET)
    assert by_the_textbook(asked).cycles < 3_800


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
