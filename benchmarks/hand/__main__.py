"""What HVX intrinsics written by hand come to, beside the best that a search finds.

    python -m benchmarks.hand [--trials 100] [--seed 0] [--workers N] [--generator NAME] [JOB ...]

Prints packets and cycles on the default target, contract static, caches warm. The code by hand
(``NAME.c`` here) is compiled by the same clang, for strips of one, two and four vectors (of wide
images) and with O2 and O3; the best counts. Both sides are verified and timed by the same measurer.
The exit status is 1 if the code by hand is ahead in a row, in packets or in cycles.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import tuner
from tuner.codegen import clang
from tuner.codegen.c_forms import wrapped
from tuner.codegen.halide.servers import ServerGenerator
from tuner.codegen.hvx.generator import HVX_SWITCHES, HvxGenerator
from tuner.errors import CandidateError
from tuner.identity import digest_of_bytes
from tuner.kernels import find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.memory_store import MemoryStore
from tuner.problem.target import DEFAULT_TARGET
from tuner.records.candidate import Artifact, Measurement, Problem
from tuner.tuning import default_workers, find_problem, keep_pipeline

HERE = Path(__file__).parent
MASK = ((1, -2, 3), (-4, 21, -5), (2, -3, 1))
"""Of the convolution, as in ``conv3x3.c``."""
WIDTHS = (1, 2, 4)
OPTIMIZATIONS = ("-O2", "-O3")
_CALL = "filter(input, input_stride_1, output, output_stride_1, output_extent_0, output_extent_1);"


@cache
def dilate() -> str:
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


def _padded(name: str) -> tuple[Any, Any, Any]:
    import halide as hl

    image = hl.ImageParam(hl.UInt(8), 2, name)
    return hl.BoundaryConditions.repeat_edge(image), hl.Var("x"), hl.Var("y")


@dataclass(frozen=True)
class Job:
    """A filter: the file by hand, and the kernel with its parameters."""

    source: str
    kernel: Callable[[], str]
    params: Mapping[str, int]

    @property
    def problem(self) -> Problem:
        """What both sides solve."""
        return find_problem(self.kernel(), dict(self.params), DEFAULT_TARGET, "static")


_LARGE = {"x": 1024, "y": 512}
JOBS = {
    "dilate 3x3": Job("dilate3x3.c", dilate, _LARGE),
    "median 3x3": Job("median3x3.c", median, _LARGE),
    "conv 3x3": Job("conv3x3.c", convolution, _LARGE),
    "sobel 3x3": Job("sobel3x3.c", lambda: "sobel_u8", {"width": 512, "height": 64}),
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
    buffers = tuple(spec._replace(name=spec.role) for spec in specs)
    text = (HERE / "rows.h").read_text() + (HERE / job.source).read_text()
    vectors = buffers[0].shape[-1] // problem.target.lanes(1)
    for wide, level in product(WIDTHS, OPTIMIZATIONS):
        if 2 * wide > vectors:  # the code by hand has a first and a last strip
            continue
        source = wrapped(problem, buffers, {}, _CALL, f"enum {{ WIDE = {wide} }};\n{text}")
        with generator.servers.one() as server:
            files = clang.compiled(
                generator.servers,
                server,
                problem.target,
                ("input.c", source.encode()),
                [*HVX_SWITCHES, level],
                with_assembly=False,
            )
        artifact = Artifact(digest_of_bytes(files[clang.OBJECT]), problem.symbol, files)
        try:
            yield measurer.measure(problem, artifact).measurement
        except CandidateError as error:
            sys.stderr.write(f"  {job.source}, {wide} wide, {level}: {error.message}\n")


def by_search(job: Job, **options: Any) -> tuple[Measurement, str]:
    """The best of a search, and what it is."""
    workload = job.problem.workload
    result = tuner.tune(workload.kernel, workload.params, store=MemoryStore(), **options)
    if result.best is None or result.best.measurement is None:
        raise SystemExit(f"{workload.label}: {result.job.note}")
    config = result.best.config.as_dict()
    return result.best.measurement, str(config.get("generator", options["generator"]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--generator", default="portfolio")
    given = parser.parse_args(arguments)
    unknown = set(given.jobs) - set(JOBS)
    if unknown:
        parser.error(f"unknown job '{min(unknown)}'; known are {', '.join(JOBS)}")
    options = {key: getattr(given, key) for key in ("trials", "seed", "workers", "generator")}
    print("| job | by hand: packets / cycles | best found | by |\n| --- | ---: | ---: | --- |")
    is_ahead = True
    with HvxGenerator(1) as generator, QemuMeasurer() as measurer:
        for name in given.jobs or JOBS:
            hand = by_hand(JOBS[name], generator, measurer)
            ours, maker = by_search(JOBS[name], **options)
            cells = [f"{one.packets:,} / {one.cycles:,}" for one in (hand, ours)]
            print(f"| {name} | {cells[0]} | {cells[1]} | `{maker}` |", flush=True)
            is_ahead &= ours.cycles <= hand.cycles
            is_ahead &= (ours.packets or 0) <= (hand.packets or 0)
    return 0 if is_ahead else 1


if __name__ == "__main__":
    sys.exit(main())
