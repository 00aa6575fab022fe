"""Several outputs: each is made by a plan of its own kind."""

from __future__ import annotations

import random
from contextlib import suppress

import halide as hl
import pytest

from benchmarks.everyday.pipelines import PIPELINES
from tests.tuner.codegen.hvx.drawn import require_right
from tuner.codegen import clang
from tuner.codegen.hvx.generator import HvxGenerator, plan_of
from tuner.codegen.hvx.kinds import Several
from tuner.codegen.hvx.plan import NoPlanError, Plan
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate, Problem
from tuner.space import Config

TARGET = find_target("hexagon-v66")
X, Y, VALUE = hl.Var("x"), hl.Var("y"), hl.Var("value")


def image_of(name: str) -> hl.ImageParam:
    return hl.ImageParam(hl.UInt(8), 2, name)


def slope(image: hl.ImageParam) -> hl.Func:
    out = hl.Func("slope")
    padded = hl.BoundaryConditions.repeat_edge(image)
    out[X, Y] = hl.i16(padded[X + 1, Y]) - hl.i16(padded[X - 1, Y])
    return out


def steepness(image: hl.ImageParam) -> hl.Func:
    out = hl.Func("steepness")
    padded = hl.BoundaryConditions.repeat_edge(image)
    out[X, Y] = hl.absd(padded[X, Y + 1], padded[X, Y - 1])
    return out


def negative(image: hl.ImageParam) -> hl.Func:
    out = hl.Func("negative")
    out[X, Y] = 255 - image[X, Y]
    return out


def turned(image: hl.ImageParam) -> hl.Func:
    out = hl.Func("turned")
    out[X, Y] = image[Y, X]
    return out


def sums(image: hl.ImageParam) -> hl.Func:
    out = hl.Func("sums")
    along = hl.RDom([(1, image.dim(0).extent() - 1)], "along")
    out[X, Y] = hl.u32(image[X, Y])
    out[along.x, Y] += out[along.x - 1, Y]
    return out


def equalised(image: hl.ImageParam) -> hl.Func:
    counts, table, out = hl.Func("counts"), hl.Func("table"), hl.Func("equalised")
    sides = [(0, image.dim(number).extent()) for number in range(2)]
    box, upwards = hl.RDom(sides, "box"), hl.RDom([(1, 255)], "upwards")
    counts[VALUE] = hl.u32(0)
    counts[hl.i32(image[box.x, box.y])] += hl.u32(1)
    counts[upwards.x] += counts[upwards.x - 1]
    table[VALUE] = hl.u8(hl.min(counts[VALUE] >> 6, 255))
    out[X, Y] = table[hl.i32(image[X, Y])]
    return out


def matched(_: hl.ImageParam) -> hl.Func:
    """Of an image that is larger."""
    out, larger, template = hl.Func("matched"), image_of("larger"), image_of("template")
    window = hl.RDom([(0, 5), (0, 3)], "window")
    tap = hl.u32(larger[X + window.x, Y + window.y]) * hl.u32(template[window.x, window.y])
    out[X, Y] = hl.u32(0)
    out[X, Y] += tap
    return out


def sharpened(image: hl.ImageParam) -> hl.Func:
    """Its sums take words, of images that are larger."""
    out, larger = hl.Func("sharpened"), image_of(f"larger_{image.name()}")
    first, second, other = (hl.i32(larger[at]) for at in ((X, Y), (X + 1, Y), (X + 2, Y + 1)))
    sums = second * 900 - first * 290 - other * 98
    out[X, Y] = hl.u8_sat(sums >> 9)
    return out


def counted(image: hl.ImageParam) -> hl.Func:
    out = hl.Func("counted")
    box = hl.RDom([(0, image.dim(number).extent()) for number in range(2)], "box")
    out[VALUE] = hl.u32(0)
    out[hl.i32(image[box.x, box.y])] += hl.u32(1)
    return out


def warped(image: hl.ImageParam) -> hl.Func:
    out, places = hl.Func("warped"), hl.ImageParam(hl.Int(16), 2, "places")
    out[X, Y] = image[hl.clamp(hl.i32(places[X, Y]), 0, image.dim(0).extent() - 1), Y]
    return out


MAKERS = (sharpened, slope, steepness, negative, equalised, turned, sums, matched)


def problem_of(dice: random.Random, count: int, contract: Contract) -> Problem:
    """That of ``count`` outputs, of one image or of two."""
    given = [image_of("image"), image_of("other")]
    makers = dice.sample(MAKERS if contract is Contract.STATIC else MAKERS[:5], count)
    outputs = [make(dice.choice(given)) for make in makers]
    kernel = find_kernel(keep_pipeline(hl.Pipeline(outputs)))
    side = dice.choice((128, 256, 384))
    sizes = {param.name: side for param in kernel.params if param.is_extent}
    return kernel.problem(sizes, contract, TARGET)


@pytest.mark.slow
@pytest.mark.parametrize("contract", [Contract.STATIC, Contract.NONE])
def test_code_of_several_outputs_is_right(contract):
    for seed in range(3):
        dice = random.Random(f"{contract} {seed}")
        problem = problem_of(dice, dice.choice((2, 3)), contract)
        require_right(problem, dice, Several)


@pytest.mark.slow
@pytest.mark.parametrize("make", [turned, sums, matched, counted, warped])
def test_two_outputs_may_be_of_one_kind(make):
    outputs = [make(image_of("image")), make(image_of("other"))]
    kernel = find_kernel(keep_pipeline(hl.Pipeline(outputs)))
    sizes = {param.name: 256 for param in kernel.params if param.is_extent}
    problem = kernel.problem(sizes, Contract.STATIC, TARGET)
    require_right(problem, random.Random(make.__name__), Several)


def test_what_clang_does_may_be_left_open():
    """As where a search asks whether two configs have the same C."""
    dice = random.Random(0)
    problem = problem_of(dice, 3, Contract.STATIC)
    generator = HvxGenerator()
    config = generator.space(find_kernel(problem.workload.kernel), problem).sample(dice)
    written = {k: v for k, v in config.items() if k not in generator.compiler_knobs}
    usual = {name: clang.DEFAULTS[name] for name in config if name not in written}
    candidates = (Candidate(problem, Config(one), "hvx") for one in (written, {**written, **usual}))
    told = [generator.identity(one, at_once=True) for one in candidates]
    assert told[0] == told[1]


@pytest.mark.slow
@pytest.mark.parametrize("contract", [Contract.STATIC, Contract.NONE])
def test_an_output_may_be_looked_up_in_a_table_that_is_made(contract):
    kernel = find_kernel(keep_pipeline(equalised(image_of("image"))))
    problem = kernel.problem({"x": 300, "y": 40}, contract, TARGET)
    require_right(problem, random.Random(str(contract)), Several)


def test_what_stands_in_the_way_of_one_of_several_outputs_is_told():
    image, wide = image_of("image"), hl.ImageParam(hl.UInt(32), 2, "wide")
    other = hl.Func("other")
    other[X, Y] = wide[X + 1, Y] + 1
    kernel = find_kernel(keep_pipeline(hl.Pipeline([negative(image), other])))
    with pytest.raises(NoPlanError, match=r"^of its output other: its inputs are not of u8"):
        plan_of(kernel, kernel.problem({}, Contract.NONE, TARGET))
    twice = [equalised(image), equalised(image)]
    kernel = find_kernel(keep_pipeline(hl.Pipeline(twice)))
    with pytest.raises(NoPlanError, match=r"^two of its outputs are histograms"):
        plan_of(kernel, kernel.problem({}, Contract.NONE, TARGET))


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_has_a_plan_or_a_reason_why_not(name):
    """Of several outputs, of tuples, of any rank; whatever the contract leaves open."""
    kernel = find_kernel(keep_pipeline(PIPELINES[name].make()))
    for contract in (Contract.STATIC, Contract.NONE):
        with suppress(NoPlanError, UserError):
            found = plan_of(kernel, kernel.problem(PIPELINES[name].sizes, contract, TARGET))
            assert isinstance(found, Plan)
