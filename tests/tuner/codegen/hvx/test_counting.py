"""Histograms: code that a seed draws is right, and what is counted otherwise says why."""

from __future__ import annotations

import random

import halide as hl
import pytest

import tuner
from tests.tuner.codegen.hvx.drawn import by_the_textbook, require_right
from tuner.codegen.hvx.counting import Histogram
from tuner.codegen.hvx.generator import HvxGenerator
from tuner.codegen.portfolio import GENERATOR, Portfolio
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
EXTENTS = ((1000,), (512, 9), (300, 20), (37, 20), (140, 5, 3), (128, 4, 2))
COUNTS = (hl.UInt(8), hl.Int(16), hl.UInt(32), hl.Int(32))
VALUES = {
    "all": lambda value: value,
    "few": lambda value: value >> 3,
    "backwards": lambda value: 255 - value,
    "dark": lambda value: hl.min(value * 2, 200),
}


def image_of(rank: int, kind: hl.Type | None = None) -> hl.ImageParam:
    return hl.ImageParam(kind or hl.UInt(8), rank, "image")


def box_of(image: hl.ImageParam) -> hl.RDom:
    sides = [image.dim(number).extent() for number in range(image.dimensions())]
    return hl.RDom([(0, side) for side in sides], "box")


def places_in(box: hl.RDom, rank: int) -> list[hl.RVar]:
    return [box[number] for number in range(rank)]


def problem_of(output: hl.Func, extents: tuple[int, ...], contract: Contract) -> Problem:
    kernel = find_kernel(keep_pipeline(output))
    sizes = {"value": 256, **{f"image_{n}": extent for n, extent in enumerate(extents)}}
    given = {one.name: sizes[one.name] for one in kernel.params if one.name in sizes}
    return kernel.problem(given, contract, TARGET)


def drawn_problem(dice: random.Random) -> Problem:
    """Of whole images or a part, by values of any kind, of which a condition may choose."""
    kind, extents = dice.choice(COUNTS), dice.choice(EXTENTS)
    rank, value = len(extents), hl.Var("value")
    image, counts, out = image_of(rank), hl.Func("counts"), hl.Func("out")
    box, is_part = box_of(image), dice.random() < 0.3
    if is_part:
        firsts = [dice.randrange(3) for _ in extents]
        box = hl.RDom(
            [(n, dice.randint(1, m - n)) for n, m in zip(firsts, extents, strict=True)], "box"
        )
    byte = image[places_in(box, rank)]
    if dice.random() < 0.5:
        box.where(byte > 20)
    counts[value] = hl.cast(kind, dice.choice((0, 5)))
    counts[hl.i32(VALUES[dice.choice(list(VALUES))](byte))] += hl.cast(kind, dice.choice((1, 3)))
    if dice.random() < 0.5:
        out[value] = hl.u16(counts[value] >> 1)
        counts = out
    is_whole = not is_part and extents[0] % 128 == 0
    contracts = [one for one in Contract if is_whole or one is not Contract.EXTENT]
    return problem_of(counts, extents, dice.choice(contracts))


@pytest.mark.slow
def test_code_of_histograms_is_right():
    for seed in range(4):
        dice = random.Random(seed)
        problem = drawn_problem(dice)
        require_right(problem, dice, Histogram)


@pytest.mark.nightly
def test_code_of_many_histograms_is_right():
    for seed in range(100, 160):
        dice = random.Random(seed)
        problem = drawn_problem(dice)
        require_right(problem, dice, Histogram)


def counted(kind: hl.Type, step: int = 1) -> hl.Func:
    """A whole image of two dimensions."""
    image, counts, value = image_of(2, kind), hl.Func("counts"), hl.Var("value")
    box = box_of(image)
    counts[value] = hl.u32(0)
    counts[hl.i32(image[box.x, box.y]) % 256] += hl.u32(1) if step else hl.u32(box.x)
    return counts


@pytest.mark.slow
def test_a_vector_takes_little_more_than_a_packet_and_no_count_overflows():
    """Of images of more vectors than halfwords hold, all of one value among what is verified."""
    problem = problem_of(counted(hl.UInt(8)), (1024, 520), Contract.STATIC)
    found = by_the_textbook(problem)
    assert 4160 <= found.packets < 1.2 * 4160


@pytest.mark.slow
def test_a_search_finds_it():
    """An image of 512x256 took 181,190 model cycles by schedules."""
    sizes = {"value": 256, "image_0": 512, "image_1": 256}
    best = tuner.tune(keep_pipeline(counted(hl.UInt(8))), sizes, trials=8).best
    assert best is not None
    assert best.config["generator"] == "hvx"
    assert best.measurement.cycles < 1500


def test_a_search_begins_with_it():
    problem = problem_of(counted(hl.UInt(8)), (512, 16), Contract.NONE)
    starts = Portfolio.starts(find_kernel(problem.workload.kernel), problem)
    assert starts["portfolio:hvx"][GENERATOR] == "hvx"


def by_rows() -> hl.Func:
    image, counts, value, y = image_of(2), hl.Func("counts"), hl.Var("value"), hl.Var("y")
    along = hl.RDom([(0, image.width())], "along")
    counts[value, y] = hl.u32(0)
    counts[hl.i32(image[along, y]), y] += hl.u32(1)
    return counts


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (lambda: counted(hl.UInt(16)), "its stage counts counts by elements of u16, not u8"),
        (lambda: counted(hl.UInt(8), step=0), "counts by more than the value of a byte"),
        (by_rows, "its stage counts counts no box of image, once each"),
    ],
)
def test_what_is_counted_otherwise_says_why(output, reason):
    problem = problem_of(output(), (256, 16), Contract.STATIC)
    with pytest.raises(UserError, match=reason):
        HvxGenerator.space(find_kernel(problem.workload.kernel), problem)
