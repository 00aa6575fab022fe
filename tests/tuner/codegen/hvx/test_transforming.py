"""Transforms of blocks: code that a seed draws is right, and what else there is says why."""

from __future__ import annotations

import random

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.generator import plan_of
from tuner.codegen.hvx.plan import NoPlanError
from tuner.codegen.hvx.transforming import Transform
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
I8, U8, I16, U16, I32 = hl.Int(8), hl.UInt(8), hl.Int(16), hl.UInt(16), hl.Int(32)
X, Y, U, V, AT_X, AT_Y = (hl.Var(name) for name in ("x", "y", "u", "v", "at_x", "at_y"))


def ended(total: hl.Expr, ending: str, shift: int) -> hl.Expr:
    rounded = (total + ((1 << shift) >> 1)) >> shift
    if ending == "within":
        return hl.i16(hl.clamp(rounded, -255, 255))
    return {"i16": hl.i16_sat, "u16": hl.u16_sat, "cut": hl.i16}[ending](rounded)


class Basis:
    """Weights that an input has, or numbers."""

    def __init__(self, side: int, kind: hl.Type, name: str, *, is_given: bool) -> None:
        dice = random.Random(side)
        self._given = hl.ImageParam(kind, 2, name) if is_given else None
        self._numbers = hl.Func(f"{name}_numbers")
        row, column = hl.Var("row"), hl.Var("column")
        each = [[dice.randint(-100, 100) for _ in range(side)] for _ in range(side)]
        flat = [hl.i16(one) for line in each for one in line]
        self._numbers[column, row] = hl.mux(row * side + column, flat)

    def __getitem__(self, at: tuple[hl.Expr, hl.Expr]) -> hl.Expr:
        return self._given[at] if self._given else self._numbers[at]


def transform(
    side: int,
    *,
    blocks: bool = False,
    first: str = "across",
    passes: int = 2,
    samples: hl.Type = I16,
    weights: hl.Type = I16,
    is_given: bool = True,
    ending: str = "i16",
    shifts: tuple[int, int] = (9, 16),
    by_bits: bool = False,
) -> hl.Func:
    image, found = hl.ImageParam(samples, 2, "image"), None
    basis = Basis(side, weights, "basis", is_given=is_given)
    places = (U, V, AT_X, AT_Y) if blocks else (X, Y)
    names = ("across", "down") if first == "across" else ("down", "across")
    for number, way in enumerate(names[:passes]):
        sums, made = hl.Func(f"sums_{number}"), hl.Func(f"made_{number}")
        k = hl.RDom([(0, side)], f"k{number}")
        inside = [U, V] if blocks else [X & (side - 1), Y & (side - 1)]
        starts = [(one >> side.bit_length() - 1) * side for one in (X, Y)]
        if not by_bits and not blocks:
            inside, starts = [X % side, Y % side], [X // side * side, Y // side * side]
        axis = 0 if way == "across" else 1
        if found is None:
            at = [AT_X * side + U, AT_Y * side + V] if blocks else [X, Y]
            at[axis] = (AT_X, AT_Y)[axis] * side + k.x if blocks else starts[axis] + k.x
            sample = image[tuple(at)]
        else:
            own = [*places]
            own[axis] = k.x if blocks else starts[axis] + k.x
            sample = found[tuple(own)]
        sums[places] = hl.i32(0)
        sums[places] += hl.i32(sample) * hl.i32(basis[k.x, inside[axis]])
        made[places] = ended(sums[places], ending, shifts[number])
        found = made
    return found


def problem_of(
    pipeline: hl.Func,
    side: int,
    across: int,
    down: int,
    *,
    blocks: bool = False,
    contract: Contract = Contract.STATIC,
    rest: tuple[int, int] = (0, 0),
    **params: int,
) -> Problem:
    kernel = find_kernel(keep_pipeline(pipeline))
    sizes = {"x": across * side + rest[0], "y": down * side + rest[1]}
    if blocks:
        sizes = {"u": side, "v": side, "at_x": across, "at_y": down}
    return kernel.problem({**sizes, **params}, contract, TARGET)


def drawn_problem(dice: random.Random) -> Problem:
    side, blocks = dice.choice((4, 8, 8, 16)), dice.choice((False, True))
    passes = dice.choice((1, 2, 2))
    made = transform(
        side,
        blocks=blocks,
        first=dice.choice(("across", "down")),
        passes=passes,
        samples=dice.choice((I16, I16, U16)),
        weights=dice.choice((I16, I8, U8, U16)),
        is_given=dice.random() < 0.7,
        ending=dice.choice(("i16", "u16", "cut", "within")),
        shifts=(dice.choice((3, 9, 16)), dice.choice((8, 15, 17))),
        by_bits=dice.random() < 0.5,
    )
    across, down = 64 // side + dice.choice((0, 1, 3, 17)), dice.choice((1, 2, 5))
    if blocks or passes == 1:
        return problem_of(made, side, across, down, blocks=blocks)
    contract = dice.choice((Contract.STATIC, Contract.NONE, Contract.HOST, Contract.STRIDE))
    rest = [dice.choice((0, 0, 1, 3)) for _ in "xy"]
    return problem_of(made, side, across, down, contract=contract, rest=tuple(rest))


def require_transformed(seed: int) -> None:
    dice = random.Random(seed)
    require_right(drawn_problem(dice), dice, Transform)


@pytest.mark.slow
def test_code_of_transforms_is_right():
    for seed in range(6):
        require_transformed(seed)


@pytest.mark.nightly
def test_code_of_many_transforms_is_right():
    for seed in range(100, 160):
        require_transformed(seed)


@pytest.mark.slow
def test_transforms_take_less_than_an_expert_took():
    """In the same simulator; Halide's best took 10,057,670."""
    made = transform(8, blocks=True)
    assert by_the_textbook(problem_of(made, 8, 64, 16, blocks=True)).cycles < 31_439


@pytest.mark.parametrize(
    ("asked", "across", "reason"),
    [
        ({}, 7, "its rows have 56 elements, fewer than 64"),
        ({"passes": 1, "contract": Contract.NONE}, 16, "of whole blocks, static only"),
        ({"contract": Contract.NONE, "blocks": True}, 16, "have code static only"),
    ],
)
def test_what_has_no_code_says_why(asked, across, reason):
    asked = dict(asked)
    contract, blocks = asked.pop("contract", Contract.STATIC), asked.get("blocks", False)
    made = problem_of(transform(8, **asked), 8, across, 2, blocks=blocks, contract=contract)
    with pytest.raises(NoPlanError, match=reason):
        plan_of(find_kernel(made.workload.kernel), made)
