"""What HVX intrinsics written by hand come to, beside the best that a search finds.

Prints packets and cycles on the default target, contract static, caches warm. The code by hand
(``NAME.c`` here) is compiled by the same clang, for one, two and four vectors (or rows) at once and
with O2 and O3; the best counts. Both sides are verified and timed by the same measurer.
It fails if the code by hand is ahead in a row, in packets or in cycles.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import product
from pathlib import Path
from typing import Any

import tuner
from benchmarks.harness import Report, add_names, add_search_options, searched_with, tell
from tuner.codegen import clang
from tuner.codegen.halide.servers import ServerGenerator
from tuner.codegen.hvx.generator import HvxGenerator
from tuner.codegen.wrapping import wrapped
from tuner.codegen.written import SWITCHES
from tuner.errors import CandidateError
from tuner.identity import digest_of_bytes
from tuner.jobs.tuning import find_problem, keep_pipeline
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.candidate import Artifact, Measurement, Problem

HERE = Path(__file__).parent
MASK = ((1, -2, 3), (-4, 21, -5), (2, -3, 1))
"""Of the convolution, as in ``conv3x3.c``."""
WIDTHS = (1, 2, 4)
OPTIMIZATIONS = ("-O2", "-O3")
_INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)
_CHOOSES = re.compile(r"\bWIDE\b")
_FILTER = (
    "filter(input, input_stride_1, output, output_stride_1, output_extent_0, output_extent_1);"
)
_SIZE = "output_extent_0 * output_extent_1"


@cache
def dilation() -> str:
    """The kernel of a pipeline: the maximum of 3x3 pixels, edges repeated."""
    import halide as hl

    padded, x, y = _padded("dilated_image")
    dilated = hl.Func("dilated")
    nine = [padded[x + dx, y + dy] for dx, dy in product((-1, 0, 1), repeat=2)]
    most = nine[0]
    for one in nine[1:]:
        most = hl.max(most, one)
    dilated[x, y] = most
    return keep_pipeline(dilated)


@cache
def median() -> str:
    """The kernel of a pipeline: the median of 3x3 pixels, edges repeated."""
    import halide as hl

    padded, x, y = _padded("median_image")

    def middle_of(a: Any, b: Any, c: Any) -> Any:
        return hl.max(hl.min(a, b), hl.min(hl.max(a, b), c))

    above, here, below = (padded[x, y + dy] for dy in (-1, 0, 1))
    least, middle, greatest, medians = (
        hl.Func(name) for name in ("least", "middle", "greatest", "medians")
    )
    least[x, y] = hl.min(hl.min(above, here), below)
    middle[x, y] = middle_of(above, here, below)
    greatest[x, y] = hl.max(hl.max(above, here), below)
    medians[x, y] = middle_of(
        hl.max(hl.max(least[x - 1, y], least[x, y]), least[x + 1, y]),
        middle_of(middle[x - 1, y], middle[x, y], middle[x + 1, y]),
        hl.min(hl.min(greatest[x - 1, y], greatest[x, y]), greatest[x + 1, y]),
    )
    return keep_pipeline(medians)


@cache
def convolution() -> str:
    """The kernel of a pipeline: nine weights of 8 bits that are not separable, edges repeated."""
    import halide as hl

    padded, x, y = _padded("convolved_image")
    convolved = hl.Func("convolved")
    total = hl.i16(0)
    for dy, row in zip((-1, 0, 1), MASK, strict=True):
        for dx, weight in zip((-1, 0, 1), row, strict=True):
            total += hl.i16(weight) * hl.i16(padded[x + dx, y + dy])
    convolved[x, y] = hl.u8_sat(total >> 4)
    return keep_pipeline(convolved)


@cache
def erosion() -> str:
    """The kernel of a pipeline: the minimum of 5x5 pixels, edges repeated."""
    import halide as hl

    padded, x, y = _padded("eroded_image")
    along, eroded = hl.Func("along"), hl.Func("eroded")
    along[x, y] = _least([padded[x + dx, y] for dx in range(-2, 3)])
    eroded[x, y] = _least([along[x, y + dy] for dy in range(-2, 3)])
    return keep_pipeline(eroded)


def _least(values: Sequence[Any]) -> Any:
    import halide as hl

    return reduce(hl.min, values)


@cache
def sharpening() -> str:
    """The kernel of a pipeline: twice a pixel less the binomial mean of 3x3, edges repeated."""
    import halide as hl

    padded, x, y = _padded("dull_image")
    along, down, sharp = (hl.Func(name) for name in ("along", "down", "sharp"))
    wide = lambda dx: hl.u16(padded[x + dx, y])  # noqa: E731 - the field's notation
    along[x, y] = wide(-1) + 2 * wide(0) + wide(1)
    down[x, y] = (along[x, y - 1] + 2 * along[x, y] + along[x, y + 1] + 8) >> 4
    sharp[x, y] = hl.u8_sat(2 * hl.i16(padded[x, y]) - hl.i16(down[x, y]))
    return keep_pipeline(sharp)


@cache
def distance_to_mean() -> str:
    """The kernel of a pipeline: the distance of each pixel to the mean of its row of 256."""
    import halide as hl

    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "uneven_image")
    across = hl.RDom([(0, 256)], "across")
    sums, distance = hl.Func("sums"), hl.Func("distance")
    sums[y] = hl.u32(0)
    sums[y] += hl.u32(image[across, y])
    distance[x, y] = hl.absd(image[x, y], hl.u8(sums[y] >> 8))
    return keep_pipeline(distance)


def _padded(name: str) -> tuple[Any, Any, Any]:
    import halide as hl

    image = hl.ImageParam(hl.UInt(8), 2, name)
    return hl.BoundaryConditions.repeat_edge(image), hl.Var("x"), hl.Var("y")


@dataclass(frozen=True)
class Job:
    """The file by hand, the kernel with its parameters, and how C calls the code by hand: an
    uploaded pipeline has the buffers ``input`` and ``output``, a kernel has its own."""

    source: str
    kernel: Callable[[], str]
    params: Mapping[str, int]
    call: str = _FILTER

    @property
    def problem(self) -> Problem:
        """What both sides solve."""
        return find_problem(self.kernel(), dict(self.params), DEFAULT_TARGET, "static")


def _named(name: str) -> Callable[[], str]:
    return lambda: name


_LARGE, _SMALL = {"x": 1024, "y": 512}, {"width": 512, "height": 64}
JOBS = {
    "mean of rows": Job("mean_rows.c", distance_to_mean, {"x": 256, "y": 512}),
    "dilate 3x3": Job("dilate3x3.c", dilation, _LARGE),
    "sobel 3x3": Job("sobel3x3.c", _named("sobel_u8"), _SMALL),
    "rgb to gray": Job(
        "rgb_to_gray.c", _named("rgb_to_gray_u8"), _SMALL, f"filter(input, output, {_SIZE});"
    ),
    "median 3x3": Job("median3x3.c", median, _LARGE),
    "conv 3x3": Job("conv3x3.c", convolution, _LARGE),
    "gaussian 5x5": Job("gaussian5x5.c", _named("gaussian5x5_u8"), _SMALL),
    "gemm": Job(
        "gemm.c",
        _named("gemm_u8"),
        {"m": 256, "n": 256, "k": 256},
        "filter(A, B, C, C_extent_1, C_extent_0, A_extent_0, scratch(A_extent_0 * 128));",
    ),
    "box 3x3": Job("box3x3.c", _named("box_blur_u8"), _SMALL),
    "erode 5x5": Job("erode5x5.c", erosion, _LARGE),
    "sharpen 3x3": Job("sharpen3x3.c", sharpening, _LARGE),
    "add": Job("add.c", _named("add_u8"), _SMALL, f"filter(a, b, output, {_SIZE});"),
    "look-up": Job("lut.c", _named("lut_u8"), _SMALL, f"filter(input, table, output, {_SIZE});"),
}


def by_hand(job: Job, generator: ServerGenerator, measurer: QemuMeasurer) -> Measurement:
    """The best of the ways to compile the code by hand."""
    found = list(_ways_by_hand(job, generator, measurer))
    return min(found, key=lambda one: one.cycles)


def _ways_by_hand(
    job: Job, generator: ServerGenerator, measurer: QemuMeasurer
) -> Iterator[Measurement]:
    problem = job.problem
    kernel = find_kernel(problem.workload.kernel)
    specs = kernel.buffers(problem.workload.params)
    named = job.call != _FILTER
    buffers = tuple(spec if named else spec._replace(name=spec.role) for spec in specs)
    text = _with_headers(job.source)
    vectors = buffers[-1].shape[-1] // problem.target.lanes(1)
    for wide, level in product(WIDTHS, OPTIMIZATIONS):
        if wide > 1 and not (_CHOOSES.search(text) and 2 * wide <= vectors):
            continue  # filters have a first and a last strip
        source = wrapped(problem, buffers, {}, job.call, f"enum {{ WIDE = {wide} }};\n{text}")
        with generator.servers.one() as server:
            files = clang.compiled(
                generator.servers,
                server,
                problem.target,
                ("input.c", source.encode()),
                [*SWITCHES, level],
                with_assembly=False,
            )
        artifact = Artifact(digest_of_bytes(files[clang.OBJECT]), problem.symbol, files)
        try:
            yield measurer.measure(problem, artifact).measurement
        except CandidateError as error:
            tell(f"  {job.source}, {wide} wide, {level}: {error.message}")


def _with_headers(name: str) -> str:
    """The file ``name`` here with the headers that it includes, as one."""
    return _INCLUDE.sub(lambda found: _with_headers(found[1]), (HERE / name).read_text())


def by_search(job: Job, **options: Any) -> tuple[Measurement, str]:
    """The best of a search, and what it is."""
    workload = job.problem.workload
    result = tuner.tune(workload.kernel, workload.params, store=MemoryStore(), **options)
    if result.best is None or result.best.measurement is None:
        raise SystemExit(f"{workload.label}: {result.job.note}")
    config = result.best.config.as_dict()
    return result.best.measurement, str(config.get("generator", options["generator"]))


def options(parser: argparse.ArgumentParser) -> None:
    """Which jobs, and how they are searched."""
    add_names(parser, "JOB", JOBS)
    add_search_options(parser, trials=100)


def run(given: argparse.Namespace, report: Report) -> None:
    """Compiles, tunes, and tells a row for each job."""
    columns = ("job", "by hand: packets / cycles", "best found", "by")
    report.table(dict.fromkeys(columns, ""))
    with HvxGenerator(1) as generator, QemuMeasurer() as measurer:
        for name in given.names:
            hand = by_hand(JOBS[name], generator, measurer)
            ours, maker = by_search(JOBS[name], **searched_with(given))
            counts = [f"{one.packets:,} / {one.cycles_text}" for one in (hand, ours)]
            report.row(name, *counts, f"`{maker}`")
            if ours.cycles > hand.cycles or (ours.packets or 0) > (hand.packets or 0):
                report.fault(f"{name}: the code by hand is ahead")
