"""Makes the tables that ``hvxtune search bench`` replays: every config of a space, measured.

One worker, configs in a random order. Each result is kept in the state directory as it comes, so
a stopped run goes on where it was, and what a stopped run has is a uniform sample of the space
(``--sampled`` writes it as such). A table is written to ``benchmarks/tables`` when it is whole.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.harness import Kept, Report, add_names, tell
from benchmarks.samplers import TABLES
from benchmarks.search.tables import Row, Table, write_table
from tuner.codegen import CodeGenerator, find_generator
from tuner.executor.evaluation import Evaluator
from tuner.jobs.tuning import find_problem
from tuner.kernels import find_kernel
from tuner.measure import find_measurer
from tuner.paths import state_dir
from tuner.records.candidate import Candidate, Problem
from tuner.records.outcome import Outcome
from tuner.space import Config, KnobValue

TARGET, CONTRACT = "hexagon-v66", "static"


@dataclass(frozen=True)
class TableSpec:
    """What a table is of: a problem, and the knobs that are held to keep its space small."""

    name: str
    kernel: str
    params: Mapping[str, int]
    held: Mapping[str, tuple[KnobValue, ...]] = field(default_factory=dict)

    @property
    def problem(self) -> Problem:
        """The problem that the configs are schedules of."""
        return find_problem(self.kernel, dict(self.params), TARGET, CONTRACT)

    def configs(self) -> list[Config]:
        """Every config of the space that keeps to ``held``, in the order they are measured."""
        space = find_kernel(self.kernel).space(self.problem)
        kept = [c for c in space if self._keeps(c)]
        Random(self.name).shuffle(kept)
        return kept

    def _keeps(self, config: Config) -> bool:
        return all(knob not in config or config[knob] in of for knob, of in self.held.items())


_STENCIL: Mapping[str, tuple[KnobValue, ...]] = {
    "lanes": (128,),
    "tile_rows": (1, 2, 4),
    "place_edged": ("root", "inline"),
    "unroll_edged": (1,),
    "align_edged": ("on",),
    "align_rows": ("on",),
    "place_slope": ("root", "inline"),
    "align_slope": ("on",),
    "align_smooth": ("on",),
    "vtcm": ("none",),
}
_GEMM: Mapping[str, tuple[KnobValue, ...]] = {
    "reduction": ("vrmpy",),
    "walk": ("columns_first",),
    "pack_a": ("none", "root"),
    "align_packed": ("on",),
    "tile_n": (32, 64, 128, 256),
}
_SIGNED_GEMM: Mapping[str, tuple[KnobValue, ...]] = {
    "pack_b": ("none", "root", "panel"),
    "pack_a": ("none", "root"),
    "align_packed": ("on",),
    "tile_n": (32, 64, 128, 256),
    "tile_m": (1, 2, 4, 8),
    "unroll_k": (1, 2, 4),
}
"""The plain product, too, and both walks, for fewer tiles."""
_BOX: Mapping[str, tuple[KnobValue, ...]] = {
    "lanes": (128, 256),
    "tile_rows": (1, 2, 4),
    "unroll": (1, 2),
    "place_edged": ("root", "inline"),
    "unroll_edged": (1,),
    "align_edged": ("on",),
    "align_rows": ("on",),
    "vtcm": ("none",),
}
"""Wider vectors, too, for fewer of them at once."""
_DEPTHWISE: Mapping[str, tuple[KnobValue, ...]] = {"align_quads": ("on",)}


def _image(kernel: str, width: int, height: int, **held: tuple[KnobValue, ...]) -> TableSpec:
    name = f"{kernel.removesuffix('_u8')}_{width}x{height}"
    return TableSpec(name, kernel, {"width": width, "height": height}, held)


def _gemm(m: int, n: int, k: int) -> TableSpec:
    return TableSpec(f"gemm_{m}x{n}x{k}", "gemm_u8", {"m": m, "n": n, "k": k}, _GEMM)


def _signed_gemm(m: int, n: int, k: int) -> TableSpec:
    return TableSpec(f"gemm_i8_{m}x{n}x{k}", "gemm_i8", {"m": m, "n": n, "k": k}, _SIGNED_GEMM)


def _depthwise(height: int, width: int, channels: int) -> TableSpec:
    params = {"height": height, "width": width, "channels": channels}
    name = f"depthwise_{height}x{width}x{channels}"
    return TableSpec(name, "depthwise_conv2d_u8", params, _DEPTHWISE)


SPECS = (
    _image("add_u8", 512, 64),
    _image("add_u8", 1024, 20),
    _image("gaussian5x5_u8", 512, 64, **_STENCIL),
    _image("gaussian5x5_u8", 1024, 24, **_STENCIL),
    _gemm(64, 256, 64),
    _gemm(80, 512, 64),
    _depthwise(32, 32, 128),
    _depthwise(16, 24, 256),
    _image("rgb_to_gray_u8", 1024, 20),
    _image("rgb_to_gray_u8", 1408, 20),
    _signed_gemm(32, 256, 64),
    _signed_gemm(64, 512, 32),
    _image("box_blur_u8", 512, 48, **_BOX),
    _image("box_blur_u8", 1024, 24, **_BOX),
    _image("sobel_u8", 512, 64, **_STENCIL),
    _image("sobel_u8", 1024, 24, **_STENCIL),
)
"""Two shapes of each kernel: what is best for one begins the search of the other."""


def make(spec: TableSpec, generator: CodeGenerator, *, sampled: bool) -> int:
    """Measures what is missing of ``spec`` and writes the table; how many rows it has. With
    ``sampled``, measures nothing and writes what there is."""
    configs = spec.configs()
    kept = Kept(state_dir() / "search_tables" / f"{spec.name}.jsonl")
    with find_measurer("qemu")(cache="warm") as measurer:
        toolchain = {**generator.fingerprint(), **measurer.fingerprint()}
        evaluator = Evaluator(generator, measurer)
        clock = time.monotonic()
        for number, config in enumerate(() if sampled else configs):
            if config.digest in kept:
                continue
            candidate = Candidate(spec.problem, config, "halide")
            trial = evaluator.evaluate(candidate, number=number, origin="table").trial
            if trial.outcome is Outcome.DEVICE_ERROR:
                continue
            cycles = trial.measurement.cycles if trial.measurement else None
            kept[config.digest] = Row(config, trial.outcome, cycles).as_dict()
            if time.monotonic() - clock > 30:
                clock = time.monotonic()
                tell(f"{spec.name}: {number + 1} of {len(configs)}")
    rows = [Row.from_dict(kept[one.digest]) for one in configs if one.digest in kept]
    if rows and (sampled or len(rows) == len(configs)):
        notes: dict[str, Any] = {
            "kernel": spec.kernel,
            "params": dict(spec.problem.workload.params),
            "contract": CONTRACT,
            "target": TARGET,
            "fidelity": "model",
            "toolchain": toolchain,
        }
        if len(rows) < len(configs):
            notes["sampled"] = {"rows": len(rows), "of": len(configs)}
        write_table(TABLES / f"{spec.name}.jsonl.gz", _table(spec, rows, notes))
    return len(rows)


def _table(spec: TableSpec, rows: list[Row], notes: Mapping[str, Any]) -> Table:
    space = find_kernel(spec.kernel).space(spec.problem)
    knobs: dict[str, tuple[KnobValue, ...]] = {}
    for knob in space.knobs:
        used = {row.config[knob.name] for row in rows if knob.name in row.config}
        if used:
            knobs[knob.name] = tuple(c for c in knob.choices if c in used)
    kernel = find_kernel(spec.kernel)
    measured = {row.config for row in rows}
    starts = (kernel.default_config(spec.problem), kernel.textbook_config(spec.problem))
    starts_measured = tuple(dict.fromkeys(c for c in starts if c in measured))
    return Table(spec.name, knobs, tuple(rows), starts_measured, notes)


def options(parser: argparse.ArgumentParser) -> None:
    """Which tables."""
    add_names(parser, "TABLE", (spec.name for spec in SPECS))
    parser.add_argument(
        "--sampled", action="store_true", help="write what is measured so far, measure nothing"
    )


def run(given: argparse.Namespace, report: Report) -> None:
    """Makes the tables, and tells a row for each."""
    report.table({"table": "", "configs": ",", "rows": ","})
    with find_generator("halide")(1) as generator:
        for spec in SPECS:
            if spec.name in given.names:
                made = make(spec, generator, sampled=given.sampled)
                report.row(spec.name, len(spec.configs()), made)
