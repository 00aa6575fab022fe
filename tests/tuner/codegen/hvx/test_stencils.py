"""Stencils that are read from uploaded pipelines, and pipelines that are none."""

from __future__ import annotations

from itertools import product

import pytest

from tests.rig.stencils import stencil
from tests.rig.unseen_pipelines import unseen_pipeline
from tests.tuner.codegen.test_analysis import made
from tuner.codegen.halide.uploads.program import program_of
from tuner.codegen.hvx.generator import plan_of
from tuner.codegen.hvx.pixel import (
    NotAStencilError,
    Pixel,
    Place,
    at,
    clamped,
    constant,
    divided,
    entry,
    masked,
    maximum,
    minimum,
    placed,
    row_sum,
)
from tuner.codegen.hvx.plan import NoPlanError
from tuner.codegen.hvx.stencils import pixels_of
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")

CELL = "h = hl.Func('h')\nh[x, y] = {}\nout = hl.Pipeline(h)"

NINE = [at(dx, dy) for dx, dy in product((-1, 0, 1), repeat=2)]


def total(parts: list[Pixel]) -> Pixel:
    return sum(parts, constant(0))


def binomial(parts: list[Pixel]) -> Pixel:
    return parts[0] + 2 * parts[1] + parts[2]


def inner(dx: int, dy: int) -> Pixel:
    return placed(Place(dx, dy, within=True))


def share(dx: int, dy: int) -> Pixel:
    return placed(Place(dx, dy, step=2, within=True, down=3))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ninth", divided(total(NINE) + 4, 9)),
        ("sharper", maximum(minimum(5 * at(0, 0) - total(NINE[1::2]), 255), 0)),
        ("wrapped", (200 * at(0, 0) + 50 * at(3, 0)) >> 8),
        ("high", (200 * at(0, 0) + 50 * at(3, 0)) >> 8),
        ("lost", at(0, 0) + at(1, 0)),
        (
            "blended",
            (at(-1, 0, "image") + at(0, 1, "image") + 2 * at(0, 0, "other") + 2) >> 2,
        ),
        (
            "larger",
            (binomial([binomial([inner(i, j) for i in range(3)]) for j in range(3)]) + 8) >> 4,
        ),
        (
            "smaller",
            (total([share(-1, at) for at in range(4)]) + 3 * share(2, 0) + 4) >> 3,
        ),
        ("toned", entry("table", (at(-1, 0, "image") + at(1, 0, "image") + 1) >> 1)),
    ],
)
def test_a_stencil_is_read_as_what_it_computes(name, expected):
    assert pixels_of(program_of(stencil(name))).each == (expected,)


def test_the_pixels_of_a_cell_are_each_an_expression():
    near = [at(0, 0), at(-1, 0), at(0, 0), at(1, 0)]
    means = [(3 * near[2 * n] + near[2 * n + 1] + 2) >> 2 for n in range(2)]
    found = pixels_of(program_of(stencil("larger_by_two")))
    assert found.cell == (2, 2)
    assert found.each == (*means, *means)


def test_bits_of_packed_pixels_are_put_beside_each_other():
    high, low = (
        [placed(Place(n, 0, step=5, within=True)) for n in each] for each in (range(4), 4 * [4])
    )
    found = pixels_of(program_of(stencil("packed")))
    bits = [masked(one >> 2 * n, 3) for n, one in enumerate(low)]
    assert found.each == tuple(4 * one + other for one, other in zip(high, bits, strict=True))


def test_a_cell_has_as_many_pixels_as_all_divisors_need():
    program = program_of(made(CELL.format("image[x // 2, y // 4] + image[x // 3, y // 2]")))
    with pytest.raises(NotAStencilError, match=r"^24 of its pixels are each another expression"):
        pixels_of(program)
    program = program_of(made(CELL.format("image[x // 2, y // 4] + image[x // 4, y % 2]")))
    with pytest.raises(NotAStencilError, match=r"it reads other pixels|two ways"):
        pixels_of(program)


def test_the_sum_of_a_row_is_one_value_at_each_size():
    blurred = (binomial([at(0, dy) for dy in (-1, 0, 1)])) >> 2
    for width in (128, 384):
        mean = (row_sum(at(0, 0), width) + 128) >> 8
        shapes = {"image": (9, width), "out": (9, width)}
        found = pixels_of(program_of(stencil("uneven")), shapes)
        assert found.each == (clamped(blurred - mean + 100),)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("halfway", "a coordinate is not|its edges are repeated along rows or columns only"),
        ("transposed", "a coordinate is not that of a pixel|it reads other pixels"),
        ("overflowing", "a value of u8 may reach from 0 to 510"),
        ("crossed", "its edges do not continue as the pixels at them"),
    ],
)
def test_what_is_no_stencil_is_refused_with_a_reason(name, reason):
    with pytest.raises(NotAStencilError, match=reason):
        pixels_of(program_of(stencil(name)))


@pytest.mark.parametrize(
    ("written", "named"),
    [
        *(
            (f"hl.BoundaryConditions.{one}(image)[x - 1, y]", f"^{one} continues an input")
            for one in ("mirror_interior", "mirror_image", "repeat_image")
        ),
        ("hl.BoundaryConditions.constant_exterior(image, 7)[x - 1, y]", "^constant_exterior"),
        ("hl.select(image[x, y] > 3, image[x, y], 0)", r"^its stage h uses select\(\)$"),
        ("image[x, y] % 3", "^its stage h uses %$"),
        ("image[x, y] < 3", "^its stage h uses <$"),
    ],
)
def test_what_stands_in_the_way_is_named_as_it_was_written(written, named):
    program = f"h = hl.Func('h')\nh[x, y] = hl.u8({written})\nout = hl.Pipeline(h)"
    with pytest.raises(NotAStencilError, match=named):
        pixels_of(program_of(made(program)))


@pytest.mark.parametrize("name", ["column_mean", "running_sum"])
def test_other_pipelines_are_refused_without_a_fault(name):
    """Of outputs of any rank, and under contracts that fix their shapes or leave them open."""
    kernel = find_kernel(keep_pipeline(unseen_pipeline(name)))
    for contract in (Contract.STATIC, Contract.NONE):
        with pytest.raises(NoPlanError):
            plan_of(kernel, kernel.problem({}, contract, TARGET))
