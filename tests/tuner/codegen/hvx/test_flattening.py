"""Windows over pixels of any number of channels: code that a seed draws is right, and what else
there is says why."""

from __future__ import annotations

import random

import halide as hl
import pytest

from tests.tuner.codegen.hvx.drawn import by_the_textbook, measured, require_right
from tuner.codegen.hvx.flattening import Flat
from tuner.codegen.hvx.generator import HvxGenerator, plan_of
from tuner.codegen.hvx.plan import NoPlanError
from tuner.codegen.hvx.routing import Routed
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Problem

TARGET = find_target("hexagon-v66")
C, X, Y = (hl.Var(name) for name in "cxy")
_STATIC = Contract.STATIC
POOLS = ("avg_pool_u8", "max_pool_u8")
LAYERS = ("depthwise_conv2d_u8", "qdepthwise_conv2d_u8")


def problem_of(
    name: str,
    height: int,
    width: int,
    channels: int,
    contract: Contract = Contract.STATIC,
    **more: int,
) -> Problem:
    sizes = {"height": height, "width": width, "channels": channels}
    return find_kernel(name).problem({**sizes, **more}, contract, TARGET)


def written(pipeline: hl.Func, sizes: tuple[int, int, int]) -> Problem:
    kernel = find_kernel(keep_pipeline(pipeline))
    return kernel.problem(dict(zip("cxy", sizes, strict=True)), Contract.STATIC, TARGET)


def drawn_problem(dice: random.Random) -> Problem:
    name = dice.choice((*POOLS, *LAYERS))
    most = dice.choice((4, 20, 60))
    height, width = dice.randint(15, most + 15), dice.randint(2, most)
    channels = dice.choice((dice.randint(1, 20), dice.randint(1, 140), 16, 64, 128, 256))
    if name in POOLS:
        more = {"size": dice.choice((2, 3, 3, 5, 7)), "stride": dice.choice((1, 2, 2, 3))}
    else:
        more = {"stride": dice.choice((1, 2))}
    if name == "qdepthwise_conv2d_u8":
        before = dice.choice((0, 1, 2))
        more |= {"before": before, "after": dice.choice((1, 2)) if height * width > 9 else 2}
    return problem_of(name, height, width, channels, **more)


def stranger(*, taps: tuple[int, int], kind: hl.Type, step: int = 1) -> hl.Func:
    """Weights and offsets of channels as others write them, and a bound of each."""
    image, out = hl.ImageParam(hl.UInt(8), 3, "image"), hl.Func("out")
    weights = hl.ImageParam(hl.Int(8), 3, "weights")
    offset, most = hl.ImageParam(kind, 1, "offset"), hl.ImageParam(hl.UInt(8), 1, "most")
    over, sums = hl.RDom([(0, taps[0]), (0, taps[1])], "over"), hl.Func("sums")
    sums[C, X, Y] = hl.i32(offset[C])
    pixel = image[C, X * step + over.x, Y * step + over.y]
    sums[C, X, Y] += hl.i32(pixel) * hl.i32(weights[C, over.x, over.y])
    out[C, X, Y] = hl.min(hl.u8_sat((sums[C, X, Y] + 32) >> 6), most[C])
    return out


def weighted() -> hl.Func:
    """Numbers, and edges that are repeated."""
    image, out = hl.ImageParam(hl.UInt(8), 3, "image"), hl.Func("out")
    near = hl.BoundaryConditions.repeat_edge(image)
    total = hl.u16(0)
    for dx, by in enumerate((1, 2, 1), -1):
        for dy, other in enumerate((1, 2, 1), -1):
            total += hl.u16(near[C, X + dx, Y + dy]) * (by * other)
    out[C, X, Y] = hl.u8((total + 8) >> 4)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_code_of_windows_is_right(seed):
    dice = random.Random(seed)
    require_right(drawn_problem(dice), dice, Flat)


@pytest.mark.slow
def test_stores_near_the_end_of_the_output_compile():
    for rows in (1, 2, 4):  # LLVM makes such branches to what it cannot emit
        problem = problem_of("avg_pool_u8", 29, 48, 18)
        space = HvxGenerator.space(find_kernel("avg_pool_u8"), problem)
        assert measured(
            problem, space.nearest_config({"hvx_walk": "rows", "hvx_rows": rows})
        ).verified


@pytest.mark.slow
@pytest.mark.parametrize(("height", "channels"), [(7, 33), (9, 64)])
def test_rows_of_any_number_may_lie_interleaved(height, channels):
    problem = problem_of("depthwise_conv2d_u8", height, 13, channels)
    space = HvxGenerator.space(find_kernel("depthwise_conv2d_u8"), problem)
    for rows in (2, 4):
        config = space.nearest_config({"hvx_walk": "interleaved", "hvx_rows": rows})
        assert measured(problem, config).verified


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 140))
def test_much_code_of_windows_is_right(seed):
    dice = random.Random(seed)
    require_right(drawn_problem(dice), dice, Flat)


@pytest.mark.slow
def test_code_of_pixels_that_others_write_is_right():
    dice = random.Random(1)
    for kind in (hl.Int(32), hl.Int(16), hl.UInt(8)):
        taps = dice.randint(1, 5), dice.randint(1, 4)
        made = stranger(taps=taps, kind=kind, step=dice.choice((1, 2)))
        require_right(written(made, (dice.randint(5, 70), 19, 9)), dice, Flat)
    require_right(written(weighted(), (11, 40, 5)), dice, Flat)


@pytest.mark.parametrize("name", ["max_pool_u8", "qdepthwise_conv2d_u8"])
def test_few_channels_cost_no_more_than_their_bytes(name):
    few = by_the_textbook(problem_of(name, 32, 32, 5)).cycles
    many = by_the_textbook(problem_of(name, 10, 2, 256)).cycles
    assert few < 3 * many  # of as many bytes


def test_what_is_no_such_image_says_why():
    image, out = hl.ImageParam(hl.UInt(8), 3, "image"), hl.Func("out")
    columns = hl.ImageParam(hl.UInt(8), 1, "columns")
    out[C, X, Y] = hl.u8_sat(hl.i32(image[C, X, Y]) * columns[X])
    problem = written(out, (5, 20, 9))
    assert isinstance(plan_of(find_kernel(problem.workload.kernel), problem), Routed)
    problem = problem_of("avg_pool_u8", 9, 9, 5, Contract.NONE)
    with pytest.raises(NoPlanError, match="other planes"):
        plan_of(find_kernel("avg_pool_u8"), problem)
