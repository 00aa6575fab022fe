"""Filters in words: code that a seed draws is right, and what else there is says why."""

from __future__ import annotations

import random

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.filtering import Filter
from tuner.codegen.hvx.generator import HvxGenerator, plan_of
from tuner.codegen.hvx.plan import NoPlanError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
I8, U8, I16, U16, I32, U32 = hl.Int(8), hl.UInt(8), hl.Int(16), hl.UInt(16), hl.Int(32), hl.UInt(32)
X, Y = hl.Var("x"), hl.Var("y")
BINOMIAL = (1, 6, 15, 20, 15, 6, 1)


def ended(total: hl.Expr, ending: str, shift: int) -> hl.Expr:
    rounded = (total + ((1 << shift) >> 1)) >> shift
    return {
        "whole": total,
        "rounded": rounded,
        "i16": hl.i16_sat(rounded),
        "u8": hl.u8_sat(rounded),
        "u16": hl.u16_sat(rounded),
        "within": hl.i16(hl.clamp(total >> shift, -100, 1000)),
        "cut": hl.cast(I16, total >> shift),
        "low": hl.cast(U8, rounded),
    }[ending]


def problem_of(
    pipeline: hl.Func, sizes: dict[str, int], contract: Contract = Contract.STATIC, **params: int
) -> Problem:
    kernel = find_kernel(keep_pipeline(pipeline))
    return kernel.problem({**sizes, **params}, contract, TARGET)


def line(
    taps: int,
    *,
    samples: hl.Type = I16,
    weights: hl.Type = I16,
    step: int = 1,
    ending: str = "i16",
    shift: int = 15,
) -> hl.Func:
    """A filter of an input's taps."""
    signal, given = hl.ImageParam(samples, 1, "signal"), hl.ImageParam(weights, 1, "taps")
    over, sums, out = hl.RDom([(0, taps)], "over"), hl.Func("sums"), hl.Func("out")
    sums[X] = hl.i32(0)
    sums[X] += hl.i32(signal[X * step + over.x]) * hl.i32(given[over.x])
    out[X] = ended(sums[X], ending, shift)
    return out


def window(
    table: list[list[int]],
    *,
    samples: hl.Type = U8,
    steps: tuple[int, int] = (1, 1),
    at: tuple[int, int] = (0, 0),
    ending: str = "u8",
    shift: int = 8,
    repeats: bool = False,
) -> hl.Func:
    """A filter of numbers over rows."""
    image, out = hl.ImageParam(samples, 2, "image"), hl.Func("out")
    image = hl.BoundaryConditions.repeat_edge(image) if repeats else image
    total = hl.i32(3)
    for dy, row in enumerate(table):
        for dx, weight in enumerate(row):
            place = X * steps[0] + dx - at[0], Y * steps[1] + dy - at[1]
            total += hl.i32(image[place]) * weight
    out[X, Y] = ended(total, ending, shift)
    return out


def gaussian() -> hl.Func:
    """Columns first, in words, as strangers write it."""
    image, wide, rows, sums, out = hl.ImageParam(U8, 2, "image"), *map(hl.Func, "abcd")
    wide[X, Y] = hl.i32(image[X, Y])
    rows[X, Y] = sum(wide[X, Y + n - 3] * by for n, by in enumerate(BINOMIAL))
    sums[X, Y] = sum(rows[X + n - 3, Y] * by for n, by in enumerate(BINOMIAL))
    out[X, Y] = hl.u8_sat(sums[X, Y] >> 12)
    return out


def drawn_problem(dice: random.Random) -> Problem:
    contract = dice.choice((Contract.STATIC, Contract.NONE, Contract.HOST))
    ending = dice.choice(("whole", "rounded", "i16", "u8", "u16", "within", "cut", "low"))
    shift = dice.choice((1, 7, 8, 13, 15, 16, 20))
    if dice.random() < 0.5:
        samples, weights = dice.choice((I8, U8, I16, U16)), dice.choice((I8, U8, I16, U16))
        step, taps = dice.choice((1, 1, 2, 4)), dice.choice((3, 5, 8, 31, 64, 70))
        made = line(taps, samples=samples, weights=weights, step=step, ending=ending, shift=shift)
        return problem_of(made, {"x": dice.choice((256, 300, 641, 2000))}, contract)
    samples = dice.choice((I8, U8, U8, I16, U16))
    steps = dice.choice(((1, 1), (1, 1), (2, 2), (1, 2), (4, 1)))
    most = dice.choice((9, 100, 127, 1000, 20_000))
    down, across = [[dice.randint(1, most) for _ in range(dice.choice((1, 2, 5, 7)))] for _ in "ab"]
    if dice.random() < 0.6 and most < 200:
        down[0], across[0] = 100, dice.choice((-101, 99)) if len(across) > 1 else 99
        table = [[one * other for other in across] for one in down]
    else:
        table = [[dice.choice((0, 1, -1)) * dice.randint(1, most) for _ in across] for _ in down]
        table[0][0], table[-1][-1] = table[0][0] or most, 30_000
    at = dice.randint(0, len(across) - 1), dice.randint(0, len(down) - 1)
    repeats = dice.random() < 0.4
    made = window(
        table, samples=samples, steps=steps, at=at, ending=ending, shift=shift, repeats=repeats
    )
    sizes = {"x": dice.choice((256, 300, 513)), "y": dice.choice((4, 5, 11, 37))}
    return problem_of(made, sizes, contract)


def require_filtered(seed: int) -> None:
    dice = random.Random(seed)
    require_right(drawn_problem(dice), dice, Filter)


@pytest.mark.slow
def test_code_of_filters_is_right():
    for seed in range(8):
        require_filtered(seed)


@pytest.mark.nightly
def test_code_of_many_filters_is_right():
    for seed in range(100, 200):
        require_filtered(seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pipeline", "sizes", "most"),
    [
        (line(32), {"x": 16_384}, 9_546 * 1.1),
        (line(32, step=2), {"x": 16_384}, 13_000),
        (
            window([[10 * n - 300 * m for n in range(5)] for m in range(5)]),
            {"x": 1024, "y": 64},
            33_500,
        ),
        (gaussian(), {"x": 1024, "y": 64}, 13_400),
    ],
)
def test_filters_take_about_what_an_expert_took(pipeline, sizes, most):
    """In the same simulator; the first and the last of these were also written by hand."""
    assert by_the_textbook(problem_of(pipeline, sizes)).cycles < most


def test_taps_that_overflow_wrap_and_others_may_saturate_on_the_way():
    def code(most: int) -> str:
        ranges = {"signal_least": -most, "signal_most": most, "taps_least": -most}
        problem = problem_of(line(32), {"x": 1024}, **ranges, taps_most=most)
        kernel = find_kernel(problem.workload.kernel)
        space = HvxGenerator.space(kernel, problem)
        return plan_of(kernel, problem).written(space.nearest_config({}))[1]

    assert "vmpyhsat_acc" in code(1000)
    assert "vmpyhv_acc" in code(32767)
    assert "sat_acc" not in code(32767)


def test_a_filter_of_few_samples_is_no_transform_of_blocks():
    made = window([[30_000] * 3], steps=(4, 1), ending="i16")
    problem = problem_of(made, {"x": 256, "y": 4})
    assert isinstance(plan_of(find_kernel(problem.workload.kernel), problem), Filter)


@pytest.mark.parametrize(
    ("pipeline", "sizes", "reason"),
    [
        (line(5), {"x": 60}, "its rows have 60 sums, fewer than a vector"),
        (line(5, step=3), {"x": 600}, "it goes on by 3 samples"),
        (line(300), {"x": 600}, "it has 300 taps, more than 256"),
    ],
)
def test_what_has_no_code_says_why(pipeline, sizes, reason):
    made = problem_of(pipeline, sizes)
    with pytest.raises(NoPlanError, match=reason):
        plan_of(find_kernel(made.workload.kernel), made)
