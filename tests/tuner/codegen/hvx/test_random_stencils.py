"""Code of the generator ``hvx`` for pipelines drawn at random, against their reference."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import halide as hl
import pytest

from tests.rig.random_stencils import cell_of, random_stencil, share_of
from tests.tuner.codegen.hvx.drawn import by_the_textbook
from tuner.codegen.hvx.generator import HvxGenerator
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate, Problem

TARGET = find_target("hexagon-v66")
WHOLE, RAGGED = (128, 256, 384, 512), (129, 200, 300, 520)
SHORT = (1, 2, 3, 5, 9, 17, 20, 31, 40, 61, 64, 90, 100, 121, 125, 127)
"""Widths of rows that fill no vector."""
DRAWN = 2
MOST_REFUSED = 0.5
"""Of all pipelines: those with sums of rows, in shapes and under contracts that are drawn, too."""


def drawn_problem(seed: int, random: Random, *, is_short: bool = False) -> Problem:
    """The pipeline of ``seed`` in a shape and under a contract that ``random`` draws; if it
    ``is_short``, with rows that fill no vector."""
    kernel = find_kernel(keep_pipeline(random_stencil(seed)))
    contract = random.choice((Contract.STATIC, *Contract))
    if is_short:
        contract = Contract.STATIC
    widths = WHOLE if contract is Contract.EXTENT else (*WHOLE, *RAGGED)
    heights: tuple[int, ...] = (5, 11, 16)
    if is_short:
        widths, heights = SHORT, (1, 2, *heights, 40, 150)
    sizes = {"x": random.choice(widths), "y": random.choice(heights), "plane": 3}
    step, down = share_of(seed)
    across, below = cell_of(seed)
    sizes["x"] *= min(across, 2)  # cells fill a vector, or do not
    is_alone = is_short or (step, down, across, below) == (1, 1, 1, 1)
    ends = (0,) if is_alone else (0, 1, 0, -1)
    columns, rows = step * sizes["x"] // across, down * sizes["y"] // below
    sizes |= {"image_0": columns + random.choice(ends), "image_1": rows + random.choice(ends)}
    sizes |= {"other_0": sizes["x"], "other_1": sizes["y"]}
    known = {param.name for param in kernel.params}
    given = {name: size for name, size in sizes.items() if name in known}
    return kernel.problem(given, contract, TARGET)


def checked(seeds: Sequence[int], *, is_short: bool = False) -> list[str]:
    """Makes code for each pipeline and compares its output; the reasons of those refused."""
    refused = []
    with HvxGenerator(1, time_limit_s=PATIENCE_S) as generator, QemuMeasurer() as measurer:
        for seed in seeds:
            random = Random(seed)
            try:
                problem = drawn_problem(seed, random, is_short=is_short)
                space = generator.space(find_kernel(problem.workload.kernel), problem)
            except UserError as error:
                refused.append(f"seed {seed}: {error.message}")
                continue
            for _ in range(DRAWN):
                values = {knob.name: random.choice(knob.choices) for knob in space.knobs}
                artifact = generator.compile(Candidate(problem, space.config(values), "hvx"))
                found = measurer.measure(problem, artifact).measurement
                assert found.verified, (seed, values)
    return refused


@pytest.mark.slow
def test_no_code_of_random_stencils_is_wrong():
    # LLVM's merging of vector loads made wrong code for 24; 38 and 138 have cells.
    seeds = [100, 24, 38, 138]
    refused = checked(seeds)
    assert len(refused) <= MOST_REFUSED * len(seeds), refused


@pytest.mark.slow
def test_rows_that_fill_no_vector_lie_side_by_side():
    seeds = range(28, 32)
    refused = checked(seeds, is_short=True)
    assert len(refused) <= MOST_REFUSED * len(seeds), refused


@pytest.mark.nightly
@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("first", range(8, 248, 40))
def test_no_code_of_hundreds_of_random_stencils_is_wrong(first, is_short):
    seeds = range(first, first + 40)
    refused = checked(seeds, is_short=is_short)
    assert len(refused) <= MOST_REFUSED * len(seeds), refused


def negative() -> hl.Func:
    """Of planes, pixel by pixel: rows may be gone through as one."""
    x, y, c = (hl.Var(name) for name in "xyc")
    out = hl.Func("out")
    out[x, y, c] = 255 - hl.ImageParam(hl.UInt(8), 3, "image")[x, y, c]
    return out


@pytest.mark.slow
def test_planes_may_begin_off_vector_boundaries():
    kernel = find_kernel(keep_pipeline(negative()))
    for width, height in ((61, 14), (129, 3), (100, 32)):
        problem = kernel.problem({"x": width, "y": height, "c": 3}, Contract.STATIC, TARGET)
        by_the_textbook(problem)
