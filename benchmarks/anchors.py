"""Holds ratios of the timing model against ratios that others have measured on hardware.

Absolute times of other people's code say nothing here; how many times faster one way of doing the
same work is than another does. It fails if a ratio points the other way.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.anchor_kernels import EXTRA_KERNELS
from benchmarks.harness import Report
from tuner.codegen import CodeGenerator, find_generator
from tuner.jobs.tuning import find_problem
from tuner.kernels import EXTRA_KERNELS_VARIABLE, find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.records.candidate import CACHE_STATES, CacheState, Candidate
from tuner.space import KnobValue

Count = Callable[..., int]
"""Cycles of a kernel: name, parameters, changes to its textbook config."""

_ROOT = Path(__file__).parents[1]
_POINTWISE = {"m": 196, "n": 64, "k": 64}
"""A 1x1 convolution of 64 to 64 channels on 14x14 pixels: rows are pixels."""
_NEIGHBOURS = {"m": 196, "n": 64, "k": 576}
"""A 3x3 one, with the nine neighbours side by side."""
_BLOCKS: Mapping[str, KnobValue] = {"order": "columns_inner"}


@dataclass(frozen=True)
class Anchor:
    """How many times faster one of two ways is: published as ``low`` to ``high``."""

    what: str
    low: float
    high: float
    source: str
    ratio: Callable[[Count], float]
    remark: str

    def verdict(self, ratio: float) -> str:
        """How the model's ratio relates to the published ones."""
        if (ratio > 1) != (self.low > 1):
            return "the other way"
        if self.low <= ratio <= self.high:
            return "within"
        return (
            f"{self.low / ratio:.1f}x below"
            if ratio < self.low
            else (f"{ratio / self.high:.1f}x above")
        )


ANCHORS = (
    Anchor(
        "vectors over scalars, 1x1 convolution",
        20.5,
        20.5,
        "TVM vrmpy, 56x56x64x64",
        lambda count: count("gemm_scalar", _POINTWISE) / count("gemm_u8", _POINTWISE),
        "the direction holds, the size does not compare: gemm here is packed and tiled, TVM's "
        "0.33 ms are 39 MAC a nanosecond, far from the peak; its scalar code is not known",
    ),
    Anchor(
        "vectors over scalars, 3x3 convolution",
        145.6,
        145.6,
        "TVM vrmpy, 56x56x64x64",
        lambda count: count("gemm_scalar", _NEIGHBOURS) / count("gemm_u8", _NEIGHBOURS),
        "the same; the plain loops walk down B's columns, which L1 does not hold",
    ),
    Anchor(
        "4 threads over 1, gemm 256^3",
        2.28,
        3.95,
        "Hexagon-MLIR, arXiv 2602.19762",
        lambda count: count("gemm_u8", {}, _BLOCKS) / count("gemm_threads", {}, _BLOCKS),
        "threads of one context each; packing B stays serial",
    ),
    Anchor(
        "VTCM staging over none, small tile",
        0.07 / 0.78,
        0.07 / 0.23,
        "TVM issue 13147",
        lambda count: count("add_u8", {}) / count("add_vtcm", {}),
        "the model counts the copy; what allocating VTCM and copying by DMA cost it does not know",
    ),
)


@contextmanager
def anchor_kernels() -> Iterator[None]:
    """Makes the variants known, to this process and to compile servers started in it."""
    added = {EXTRA_KERNELS_VARIABLE: EXTRA_KERNELS, "PYTHONPATH": str(_ROOT)}
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def counter(cache: CacheState, generator: CodeGenerator) -> Count:
    """Measures under one condition."""
    measurer = QemuMeasurer(cache=cache)

    def count(
        kernel: str, params: Mapping[str, int], changes: Mapping[str, KnobValue] | None = None
    ) -> int:
        problem = find_problem(kernel, dict(params), "hexagon-v66", "static")
        textbook = find_kernel(kernel).textbook_config(problem).as_dict()
        config = find_kernel(kernel).space(problem).config({**textbook, **(changes or {})})
        artifact = generator.compile(Candidate(problem, config))
        return measurer.measure(problem, artifact).measurement.cycles

    return count


def ratios() -> dict[str, dict[CacheState, float]]:
    """Each anchor's ratio under each condition of the caches."""
    with anchor_kernels(), find_generator("halide")(1) as generator:
        counts = {cache: counter(cache, generator) for cache in CACHE_STATES}
        return {a.what: {c: a.ratio(count) for c, count in counts.items()} for a in ANCHORS}


def run(_given: argparse.Namespace, report: Report) -> None:
    """Tells the table."""
    columns = ("ratio", "published", "source", *(f"model, {cache}" for cache in CACHE_STATES))
    report.table(dict.fromkeys(columns, ""), "How many times faster")
    found = ratios()
    for anchor in ANCHORS:
        exact = anchor.low == anchor.high
        published = f"{anchor.low:.3g}" if exact else f"{anchor.low:.2g} to {anchor.high:.3g}"
        own = found[anchor.what].values()
        cells = [f"{ratio:.2f} {anchor.verdict(ratio)}" for ratio in own]
        report.row(anchor.what, published, anchor.source, *cells)
        if any((ratio > 1) != (anchor.low > 1) for ratio in own):
            report.fault(f"{anchor.what}: the other way")
    for anchor in ANCHORS:
        report.remark(f"{anchor.what}: {anchor.remark}")
