"""Functions of the elements at each place: drawn code is right, by the operations of experts."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.generator import HvxGenerator, plan_of
from tuner.codegen.hvx.pointwise import Pointwise
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem
from tuner.space import Config

TARGET = find_target("hexagon-v66")
X, Y, C = hl.Var("x"), hl.Var("y"), hl.Var("c")
U8, I8, U16, I16, U32, I32 = (make(bits) for bits in (8, 16, 32) for make in (hl.UInt, hl.Int))
KINDS = (U8, I8, U16, I16, U32, I32)
SHAPES = ((128, 9), (37, 21), (1, 300), (130, 3), (5, 4), (1000, 2), (513, 1))
Make = Callable[..., hl.Expr]


def problem_of(
    make: Make,
    kinds: tuple[hl.Type, ...],
    size: tuple[int, ...] = (1024, 64),
    contract: Contract = Contract.STATIC,
    scalars: tuple[hl.Type, ...] = (),
) -> Problem:
    """That of ``make`` of an element of each of ``kinds``, and of ``scalars``."""
    places = (X, Y, C)[: len(size)]
    images = [hl.ImageParam(kind, len(size), f"in{n}") for n, kind in enumerate(kinds)]
    out = hl.Func("out")
    given = [hl.Param(kind, f"width{n}", 3 + n) for n, kind in enumerate(scalars)]
    out[places] = make(*(image[places] for image in images), *given)
    kernel = find_kernel(keep_pipeline(out))
    sizes = dict(zip("xyc", size, strict=False))
    return kernel.problem(sizes, contract, TARGET)


def drawn_value(dice: random.Random, given: list[hl.Expr], depth: int) -> hl.Expr:
    """Of elements and numbers, in types that overflow is defined in, and some that have room."""
    if depth == 0:
        return dice.choice(given)
    kind = dice.choice((U8, I8, U16, I16, U32, U8, U8, I16))

    def part() -> hl.Expr:
        return hl.cast(kind, drawn_value(dice, given, depth - 1))

    def number(low: int, high: int) -> hl.Expr:
        return hl.cast(kind, dice.randint(low, high))

    a, b = part(), part()
    least = -100 if kind.is_int() else 0
    wide = hl.Int(32) if kind.bits() < 32 else hl.UInt(32)
    half = number(0, 1)
    makers: dict[str, Callable[[], hl.Expr]] = {
        "sum": lambda: a + b,
        "difference": lambda: a - b,
        "product": lambda: a * b,
        "multiple": lambda: a * number(least, 100) + b * number(least, 100) + number(0, 100),
        "bits": lambda: dice.choice((a & b, a | b, a ^ b, ~a, a & number(0, 127))),
        "extreme": lambda: dice.choice((hl.min(a, b), hl.max(a, b))),
        "clamp": lambda: hl.clamp(a, number(least, 20), number(30, 120)),
        "right": lambda: a >> number(0, kind.bits() - 1),
        "left": lambda: a << number(0, kind.bits() - 1),
        "moved": lambda: dice.choice((a >> b, a << b)),
        "apart": lambda: hl.cast(kind, hl.absd(a, b)),
        "magnitude": lambda: hl.cast(kind, hl.abs(hl.i16(a) - hl.i16(b))),
        "mean": lambda: hl.cast(kind, (hl.cast(wide, a) + hl.cast(wide, b) + 1) >> 1),
        "half": lambda: hl.cast(kind, (hl.cast(wide, a) - hl.cast(wide, b)) >> 1),
        "choice": lambda: hl.select(dice.choice((a < b, a <= b, a == b, (a > b) & (a != 3))), a, b),
        "saturated": lambda: hl.saturating_cast(kind, hl.cast(wide, a) + hl.cast(wide, b)),
        "narrowed": lambda: hl.u8_sat((hl.i32(hl.i16(a)) * hl.i16(b) + 64) >> dice.randint(1, 20)),
        "short": lambda: hl.i8_sat((hl.i16(a) + dice.choice((0, 16))) >> dice.randint(1, 8)),
        "scaled": lambda: hl.i16_sat((hl.i32(hl.i16(a)) * hl.i16(b) + (1 << 14)) >> 15),
        "divided": lambda: hl.cast(kind, hl.u8(a) // hl.u8(b)) + half,
        "rest": lambda: hl.cast(kind, hl.i8(a) % hl.i8(b)) + half,
        "by number": lambda: hl.i16(a) // hl.i16(dice.randint(2, 300)),
        "rest by number": lambda: hl.u16(a) % hl.u16(dice.randint(2, 300)),
        "counted": lambda: dice.choice(
            (hl.popcount(a), hl.count_leading_zeros(a), hl.count_trailing_zeros(a))
        ),
    }
    return makers[dice.choice(list(makers))]()


def drawn_problem(dice: random.Random) -> Problem:
    kinds = tuple(dice.choice(KINDS) for _ in range(dice.randint(1, 3)))
    made = dice.choice(KINDS)
    contract = dice.choice((Contract.STATIC, Contract.STATIC, Contract.NONE, Contract.STRIDE))
    size = dice.choice(SHAPES if contract is Contract.STATIC else ((300, 5), (1000, 2)))
    if dice.random() < 0.3:
        size = (*size, 3)
    depth = dice.randint(1, 3)
    scalars = tuple(dice.choice(KINDS) for _ in range(dice.choice((0, 0, 1, 2))))

    def make(*given: hl.Expr) -> hl.Expr:
        return hl.cast(made, drawn_value(dice, list(given), depth))

    return problem_of(make, kinds, size, contract, scalars)


def require_pointwise(seed: int) -> bool:
    """That the code of what ``seed`` draws is right; false if there is none."""
    dice = random.Random(seed)
    problem = drawn_problem(dice)
    try:
        HvxGenerator.space(find_kernel(problem.workload.kernel), problem)
    except UserError:
        return False
    require_right(problem, dice, Pointwise)
    return True


@pytest.mark.slow
def test_code_of_elements_at_each_place_is_right():
    assert sum(map(require_pointwise, range(16))) > 8


@pytest.mark.nightly
def test_code_of_many_elements_at_each_place_is_right():
    assert sum(map(require_pointwise, range(100, 400))) > 150


def doubled(a: hl.Expr, b: hl.Expr) -> hl.Expr:
    return hl.i32(a) + hl.i32(b)


@pytest.mark.parametrize(
    ("operation", "kinds", "make"),
    [
        ("vavgub", (U8, U8), lambda a, b: hl.u8(doubled(a, b) >> 1)),
        ("vavgub", (U8, U8), lambda a, b: hl.u8((hl.u16(a) + b) // 2)),
        ("vavghrnd", (I16, I16), lambda a, b: hl.i16((doubled(a, b) + 1) >> 1)),
        ("vnavgub", (U8, U8), lambda a, b: hl.i8((hl.i16(a) - b) // 2)),
        ("vaddubsat", (U8, U8), lambda a, b: hl.u8(hl.min(hl.u16(a) + b, 255))),
        ("vsububsat", (U8, U8), lambda a, b: hl.u8(hl.max(hl.i16(a) - b, 0))),
        ("vaddhsat", (I16, I16), lambda a, b: hl.i16_sat(doubled(a, b))),
        ("vabsdiffub", (U8, U8), lambda a, b: hl.u8(hl.abs(hl.i16(a) - b))),
        ("vabsdiffh", (I16, I16), lambda a, b: hl.u16(hl.abs(doubled(a, -hl.i32(b))))),
        ("vminub", (U8, U8), lambda a, b: hl.select(a < b, a, b)),
        ("vmpyubv", (U8, U8), lambda a, b: hl.u16(a) * b),
        ("vmpabus", (U8, U8), lambda a, b: hl.u8((hl.i32(a) * 3 + hl.i32(b) * 5 + 4) >> 3)),
        ("vmpyhv", (I16, I16), lambda a, b: hl.i32(a) * hl.i32(b)),
        ("vasrhubrndsat", (I16,), lambda a: hl.u8_sat((hl.i32(a) + 8) >> 4)),
        ("vsathub", (I16,), lambda a: hl.u8(hl.clamp(a, 0, 255))),
        ("vroundwh", (I32,), lambda a: hl.i16_sat((hl.i64(a) + (1 << 15)) >> 16)),
        (
            "vmpyowh_rnd_sacc",
            (I32, I32),
            lambda a, b: hl.i32_sat((hl.i64(a) * hl.i64(b) + (1 << 30)) >> 31),
        ),
    ],
)
def test_an_operation_of_hvx_is_found_however_it_is_spelled(operation, kinds, make):
    problem = problem_of(make, kinds)
    plan = plan_of(find_kernel(problem.workload.kernel), problem)
    assert f"HVX({operation})" in plan.written(plan_start(problem))[1]


def plan_start(problem: Problem) -> Config:
    return HvxGenerator.starts(find_kernel(problem.workload.kernel), problem)["default"]


@pytest.mark.parametrize("size", [(127, 64), (37, 21, 3), (3, 2)])
def test_rows_that_fill_no_vector_are_one(size):
    problem = problem_of(lambda a: 255 - a, (U8,), size)
    plan = plan_of(find_kernel(problem.workload.kernel), problem)
    assert isinstance(plan, Pointwise)
    assert plan.specs[-1].shape == (prod(size),)


@pytest.mark.parametrize("make", ["gray", "biased"])
def test_axes_are_one_where_others_are_read_otherwise(make):
    """Planes of colours by number, and a value for each plane."""
    image, bias, out = (
        hl.ImageParam(U8, 3, "image"),
        hl.ImageParam(I16, 1, "bias"),
        hl.Func("out"),
    )
    if make == "gray":
        red, green, blue = (hl.u16(image[X, Y, n]) for n in range(3))
        out[X, Y] = hl.u8((red * 77 + green * 150 + blue * 29 + 128) >> 8)
    else:
        out[X, Y, C] = hl.u8_sat(hl.i16(image[X, Y, C]) + bias[C])
    kernel = find_kernel(keep_pipeline(out))
    sizes = {"x": 37, "y": 21} if make == "gray" else {"x": 37, "y": 21, "c": 5}
    plan = plan_of(kernel, kernel.problem(sizes, Contract.STATIC, TARGET))
    assert isinstance(plan, Pointwise)
    assert [spec.shape[-1] for spec in plan.specs if len(spec.shape) > 1 or make == "gray"] == (
        [777, 777]
    )


@pytest.mark.slow
def test_bytes_are_divided_by_one_another_in_few_packets():
    """Beyond two vectors that are loaded and one that is stored; by schedules it took 32,982."""
    vectors = 1024 * 64 // 128
    assert by_the_textbook(problem_of(lambda a, b: a // b, (U8, U8))).packets < (3 + 6) * vectors
    assert by_the_textbook(problem_of(lambda a: a % hl.u8(10), (U8,))).packets < (2 + 6) * vectors


@pytest.mark.slow
@pytest.mark.parametrize("width", [127, 128, 129])
def test_short_rows_cost_what_their_bytes_cost(width):
    problem = problem_of(lambda a, b: hl.u8((hl.u16(a) + b) // 2), (U8, U8), (width, 64))
    assert by_the_textbook(problem).cycles < 3 * width * 64 // 128 + 60


@pytest.mark.parametrize(
    ("make", "kinds", "reason"),
    [
        (lambda a, b: a // b, (U16, U16), "it divides by elements of more than 8 bits"),
        (lambda a: a // hl.u32(7), (U32,), "it divides words"),
    ],
)
def test_what_has_no_code_says_why(make, kinds, reason):
    problem = problem_of(make, kinds)
    with pytest.raises(UserError, match=reason):
        HvxGenerator.space(find_kernel(problem.workload.kernel), problem)
