"""The roofline: nothing measured lies below it, and code written to reach it does."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tuner.codegen import clang
from tuner.codegen.hvx.generator import HvxGenerator
from tuner.codegen.wrapping import wrapped
from tuner.codegen.written import SWITCHES
from tuner.identity import digest_of_bytes
from tuner.jobs.tuning import find_problem, keep_pipeline
from tuner.kernels import WorkCounts, find_kernel
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.measure.qemu.model import find_model
from tuner.measure.qemu.uncertain import plausible_cycles
from tuner.measure.roofline import least_ranked_cycles, roofline_of, roofline_of_work
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact

TARGET = find_target(DEFAULT_TARGET)
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
HERE = Path(__file__).with_name("reaching")
REACHED = 1.2


@pytest.mark.parametrize("table", sorted((BENCHMARKS / "tables").iterdir()), ids=lambda p: p.name)
def test_no_stored_measurement_lies_below_it(table: Path) -> None:
    header, *rows = map(json.loads, gzip.decompress(table.read_bytes()).splitlines())
    kernel = find_kernel(header["kernel"])
    work = kernel.work(kernel.workload(header["params"]).params)
    least = roofline_of_work(work, find_target(header["target"]), "warm").cycles
    best = min(row["cycles"] for row in rows if "cycles" in row)
    assert least <= best <= 8 * least


def test_ddr_bounds_what_l2_cannot_hold() -> None:
    bandwidth = find_model(TARGET.arch).parameters.ddr_bandwidth
    half = TARGET.l2_bytes // 2

    def moved(read: int, written: int, cache: Any) -> float:
        bounds = roofline_of_work(WorkCounts(0, 0, read, written), TARGET, cache).bounds
        return sum(one.cycles * bandwidth for one in bounds if one.resource == "ddr")

    assert moved(half, half, "warm") == 0
    assert moved(3 * half, half, "warm") == 2 * half
    assert moved(half, half, "cold") == half
    assert moved(half, 3 * half, "cold") == 2 * half


def test_memory_bounds_the_models_cycles_alone() -> None:
    problem = find_problem(
        "gaussian5x5_u8", {"width": 3840, "height": 2160}, DEFAULT_TARGET, "static"
    )
    roofline = roofline_of(problem)
    assert roofline.binding.resource == "ddr"
    assert roofline.cycles_at("model") > 4 * roofline.cycles_at("hardware")


def test_each_rule_has_a_least_of_its_own() -> None:
    """That of a call which does nothing but move bytes at the bandwidth of DDR."""
    moved = 10_000_000
    work = WorkCounts(0, 0, TARGET.l2_bytes + moved, 0)
    events = Events.from_dict({"loops": [0], "counts": [{"ddr_read_bytes": moved}]})
    expected = plausible_cycles(events, TARGET.arch, TARGET.hvx_contexts).expected
    nominal = moved / find_model(TARGET.arch).parameters.ddr_bandwidth
    assert expected is not None
    assert abs(expected / nominal - 1) > 0.05, "the rules need not be told apart"
    least = partial(least_ranked_cycles, work, TARGET, "warm")
    assert least("model", "fastest") == pytest.approx(nominal)
    assert least("model", "robust") == pytest.approx(expected, abs=1)
    assert least("hardware", "robust") == least("hardware", "fastest") < nominal / 4


@dataclass(frozen=True)
class Reaching:
    """Code by hand, and what it computes: an upload or a kernel. ``call`` knows the buffers as
    ``names``: Halide appends numbers to those of an upload."""

    source: Path
    kernel: Callable[[], str]
    params: Mapping[str, int]
    names: tuple[str, ...]
    call: str
    binds: str


def inverted() -> str:
    import halide as hl

    x, image, output = hl.Var("x"), hl.ImageParam(hl.UInt(8), 1, "input"), hl.Func("inverted")
    output[x] = ~image[x]
    return keep_pipeline(output)


def filtered() -> str:
    import halide as hl

    x, k, sums = hl.Var("x"), hl.RDom([(0, 32)], "k"), hl.Func("sums")
    signal, taps = (hl.ImageParam(hl.UInt(16), 1, name) for name in ("signal", "taps"))
    sums[x] = hl.u32(0)
    sums[x] += hl.u32(signal[x + k]) * hl.u32(taps[k])
    return keep_pipeline(sums)


REACHING = {
    "loads and stores": Reaching(
        HERE / "invert.c",
        inverted,
        {"x": 65536},
        ("input", "output"),
        "filter(input, output, output_extent_0);",
        "load",
    ),
    "16-bit products": Reaching(
        HERE / "fir_u16.c",
        filtered,
        {"x": 16384},
        ("signal", "taps", "sums"),
        "filter(signal, taps, sums, sums_extent_0);",
        "multiply",
    ),
    "permutes": Reaching(
        BENCHMARKS / "hand" / "lut.c",
        lambda: "lut_u8",
        {"width": 512, "height": 64},
        ("input", "table", "output"),
        "filter(input, table, output, output_extent_0 * output_extent_1);",
        "permute",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REACHING)
def test_code_written_for_it_comes_near_and_not_below(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path))
    job = REACHING[name]
    problem = find_problem(job.kernel(), dict(job.params), DEFAULT_TARGET, "static")
    specs = find_kernel(problem.workload.kernel).buffers(problem.workload.params)
    buffers = [one._replace(name=name) for one, name in zip(specs, job.names, strict=True)]
    vectors = (BENCHMARKS / "hand" / "vectors.h").read_text()
    text = "enum { WIDE = 2 };\n" + job.source.read_text().replace('#include "vectors.h"', vectors)
    source = wrapped(problem, buffers, {}, job.call, text)
    with HvxGenerator(1) as generator, QemuMeasurer() as measurer:
        with generator.servers.one() as server:
            files = clang.compiled(
                generator.servers,
                server,
                problem.target,
                ("input.c", source.encode()),
                [*SWITCHES, "-O2"],
                with_assembly=False,
            )
        artifact = Artifact(digest_of_bytes(files[clang.OBJECT]), problem.symbol, files)
        packets = measurer.measure(problem, artifact).measurement.packets
    roofline = roofline_of(problem)
    assert roofline.binding.resource == job.binds
    assert packets is not None
    assert roofline.cycles <= packets <= REACHED * roofline.cycles
