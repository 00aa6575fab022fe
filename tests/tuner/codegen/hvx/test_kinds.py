"""Several outputs: each is made by a plan of its own kind."""

from __future__ import annotations

import random

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import require_right
from tuner.codegen.hvx.generator import plan_of
from tuner.codegen.hvx.kinds import Several
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
X, Y, VALUE = hl.Var("x"), hl.Var("y"), hl.Var("value")


def dense(*, name: str = "image") -> hl.ImageParam:
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


MAKERS = (slope, steepness, negative, turned, sums)


def problem_of(dice: random.Random, count: int, contract: Contract) -> Problem:
    """That of ``count`` outputs, of one image or of two."""
    given = [dense(), dense(name="other")]
    makers = dice.sample(MAKERS if contract is Contract.STATIC else MAKERS[:3], count)
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
        assert isinstance(plan_of(find_kernel(problem.workload.kernel), problem), Several)
        require_right(problem, dice)
