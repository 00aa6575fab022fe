"""Elements from known places: routes bring what they say, drawn code is right, and the rest says
why it has none."""

from __future__ import annotations

import random

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.generator import HvxGenerator, plan_of
from tuner.codegen.hvx.networks import MOST_PIECES, Route, pieces_of, routed
from tuner.codegen.hvx.plan import Plan
from tuner.codegen.hvx.routing import Routed
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
LANES = 128
X, Y = hl.Var("x"), hl.Var("y")
KINDS = hl.UInt(8), hl.Int(8), hl.UInt(16), hl.Int(16), hl.Int(32)
WAYS = ("apart", "mirrored", "between", "nearest", "either", "groups", "by rows")


def brought(window: list[int], route: Route, *, is_upwards: bool) -> list[int]:
    """What ``vdelta`` or ``vrdelta`` makes of ``window``, as the manual has it."""
    steps = [1 << n for n in range(7)]
    for bit in steps if is_upwards else steps[::-1]:
        ways = route.ways or [0] * LANES
        window = [window[lane ^ (ways[lane] & bit)] for lane in range(LANES)]
    return window


def drawn_places(dice: random.Random) -> tuple[int, ...]:
    step, first = dice.choice((-3, -1, 0, 1, 1, 2, 5)), dice.randrange(-200, 900)
    places = [max(0, first + (step * n) // dice.choice((1, 1, 2))) for n in range(LANES)]
    return tuple(-1 if dice.random() < 0.1 else place for place in places)


def test_routes_bring_bytes_to_their_lanes():
    for seed in range(12):
        dice = random.Random(seed)
        size, is_upwards = dice.choice((1, 2, 4)), dice.random() < 0.5
        places = drawn_places(dice)[: LANES // size]
        memory, ends = list(range(5000)), (0, 5000 - LANES)
        pieces = pieces_of(places, size, LANES, ends, is_upwards=is_upwards)
        found = dict[int, int]()
        for start, route in pieces:
            vector = brought(memory[start : start + LANES], route, is_upwards=is_upwards)
            found |= {lane: vector[lane] for lane in route.lanes}
        wanted = {
            size * n + at: size * one + at
            for n, one in enumerate(places)
            for at in range(size if one >= 0 else 0)
        }
        assert found.items() <= wanted.items()
        assert found == wanted or len(pieces) > MOST_PIECES


def test_bytes_that_meet_come_one_after_the_other():
    both = routed((0, 64, *[-1] * (LANES - 2)), 1, is_upwards=False)
    assert both.lanes in ((0,), (0, 1))
    assert routed(tuple(range(LANES)), 1, is_upwards=False) == ((), tuple(range(LANES)))


def problem(way: str, size: tuple[int, int], kind: hl.Type, step: int = 3) -> Problem:
    """Of elements of an image, by numbers that ``way`` says."""
    image, other = (hl.ImageParam(kind, 2, name) for name in ("image", "other"))
    out = hl.Func("out")
    last = image.dim(0).extent() - 1
    wide = hl.Int(32) if kind.bits() > 8 else hl.Int(16)
    source = size[0], size[1]

    def at(place: hl.Expr, row: hl.Expr = Y) -> hl.Expr:
        return hl.cast(wide, image[hl.clamp(place, 0, last), row])

    if way == "apart":
        out[X, Y], source = image[step * X + step - 1, Y], (step * size[0], size[1])
    elif way == "mirrored":
        out[X, Y] = image[last - X, Y]
    elif way == "between":
        place = (X * step * 1024) >> 12
        weight = hl.cast(wide, (X * step * 64 >> 8) & 63)
        total = at(place) * (64 - weight) + at(place + 1) * weight
        out[X, Y] = hl.cast(kind, (total + 32) >> 6)
    elif way == "nearest":
        out[X, Y] = image[X * step // 5, Y * 2 // 3]
    elif way == "either":
        out[X, Y] = hl.select(X % step == 1, image[X // step, Y], other[X, Y])
    elif way == "groups":
        out[X, Y] = hl.cast(kind, at(X // 4 * step + X % 4) >> hl.cast(wide, X % 3))
    elif way == "by rows":
        number = hl.cast(wide, Y % 3)
        out[X, Y] = hl.select(Y % 2 == 1, hl.cast(kind, at(X // 2) * number), image[X // 3, Y])
    elif way == "both":
        out[X, Y] = image[(X * Y) % 7, Y]
    kernel = find_kernel(keep_pipeline(out))
    sizes = {"x": size[0], "y": size[1], "image_0": source[0], "image_1": source[1]}
    known = {param.name for param in kernel.params}
    given = {name: value for name, value in sizes.items() if name in known}
    return kernel.problem(given, Contract.STATIC, TARGET)


def drawn_problem(dice: random.Random) -> Problem:
    size = dice.choice((5, 37, 128, 130, 300, 513)), dice.choice((1, 2, 5, 12))
    return problem(dice.choice(WAYS), size, dice.choice(KINDS), dice.choice((2, 3, 5)))


def require_routed(seed: int) -> None:
    """Of what is drawn; a stencil reads some."""
    dice = random.Random(seed)
    require_right(drawn_problem(dice), dice, Plan)


@pytest.mark.slow
def test_code_of_known_places_is_right():
    require_routed(3)


@pytest.mark.nightly
def test_code_of_many_known_places_is_right():
    for seed in range(100, 170):
        require_routed(seed)


@pytest.mark.slow
def test_a_resized_image_takes_less_than_an_expert_took():
    """In the same simulator, by two windows and ``vdelta`` a tap."""
    kernel = find_kernel("resize_bilinear_u8")
    made = kernel.problem({}, Contract.STATIC, TARGET)
    assert isinstance(plan_of(kernel, made), Routed)
    assert by_the_textbook(made).cycles < 6_117


@pytest.mark.parametrize(
    ("way", "size", "reason"),
    [
        ("apart", (130, 5), "what it reads lies too far apart"),
        ("both", (1000, 400), "rows and columns together"),
    ],
)
def test_what_has_no_code_says_why(way, size, reason):
    made = problem(way, size, hl.UInt(8), 65)
    with pytest.raises(UserError, match=reason):
        HvxGenerator.space(find_kernel(made.workload.kernel), made)
