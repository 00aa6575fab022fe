"""Blocks at shifts: code that a seed draws is right, and what else there is says why."""

from __future__ import annotations

import random

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.blocks import Blocks
from tuner.codegen.hvx.generator import HvxGenerator
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
AXES = ("shift_x", "shift_y", "block_x", "block_y")


def problem(
    block: tuple[int, int],
    blocks: tuple[int, int],
    shifts: tuple[int, int],
    *,
    axes: tuple[str, ...] = AXES,
    kind: hl.Type | None = None,
    begins: int = 0,
    apart: int = 0,
    contract: Contract = Contract.STATIC,
) -> Problem:
    """Sums over blocks, all sizes width first: of differences, or of products if there is a
    ``kind``; the axes of the output innermost first. Shifts go from ``begins`` on, and rows of
    blocks are ``apart``."""
    of = {name: hl.Var(name) for name in AXES}
    over, out = hl.RDom([(0, block[0]), (0, block[1])], "over"), hl.Func("out")
    one, other = (hl.ImageParam(kind or hl.UInt(8), 2, name) for name in ("one", "other"))
    x = block[0] * of["block_x"] + over.x
    y = (block[1] + apart) * of["block_y"] + over.y
    own = one[x, y]
    there = other[x + of["shift_x"] + begins, y + of["shift_y"] + begins]
    term = hl.i32(hl.absd(own, there)) if kind is None else hl.i32(own) * hl.i32(there)
    out[[of[name] for name in axes]] = hl.sum(term)
    kernel = find_kernel(keep_pipeline(out))
    extents = dict(zip(AXES, (*shifts, *blocks), strict=True))
    return kernel.problem({name: extents[name] for name in axes}, contract, TARGET)


def drawn_problem(dice: random.Random) -> Problem:
    width = dice.choice((4, 8, 16, 32))
    blocks = 128 // width + dice.choice((0, 1, 3, 128 // width)), dice.choice((1, 2, 3))
    return problem(
        (width, dice.choice((1, 4, 8, 16))),
        blocks,
        (dice.choice((2, 5, 8, 17, 23)), dice.choice((1, 2, 5))),
        axes=tuple(dice.sample(AXES, 4)),
        kind=dice.choice((None, None, hl.UInt(8), hl.Int(8))),
        begins=dice.choice((0, -2)),
        contract=dice.choice((Contract.STATIC, Contract.NONE)),
        apart=dice.choice((0, 0, 3)),
    )


def require_of_blocks(seed: int) -> None:
    dice = random.Random(seed)
    drawn = drawn_problem(dice)
    require_right(drawn, dice, Blocks)


@pytest.mark.slow
def test_code_of_blocks_at_shifts_is_right():
    for seed in range(4):
        require_of_blocks(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 140))
def test_code_of_many_blocks_at_shifts_is_right(seed):
    require_of_blocks(seed)


@pytest.mark.slow
def test_a_search_for_motion_is_ahead_of_an_expert():
    """In the same simulator, warm."""
    searched = problem((16, 16), (16, 4), (17, 17))
    found = by_the_textbook(searched)
    assert found.cycles < 104_043


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"block": (12, 4)}, "its blocks are not"),
        ({"blocks": (7, 2)}, "its blocks are 7 in a row, no vector"),
    ],
)
def test_blocks_that_have_no_code_say_why(given, reason):
    sizes = {"block": (16, 4), "blocks": (8, 2), "shifts": (5, 3)}
    other = problem(**{**sizes, **given})
    with pytest.raises(UserError, match=reason):
        HvxGenerator.space(find_kernel(other.workload.kernel), other)
