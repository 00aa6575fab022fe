"""Variants of kernels that no tuner would propose, for the ratios others have published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tuner.kernels.add_u8 import AddU8, quantized_sum
from tuner.kernels.gemm_u8 import GemmU8
from tuner.kernels.kernel import HalidePipeline
from tuner.records.candidate import Problem
from tuner.space import Config, Directive
from tuner.space.directives import Steps

EXTRA_KERNELS = ",".join(
    f"{name}=benchmarks.anchor_kernels:{cls}"
    for name, cls in (
        ("gemm_scalar", "ScalarGemm"),
        ("gemm_threads", "ThreadedGemm"),
        ("add_vtcm", "StagedAdd"),
    )
)
"""For ``HVXTUNE_KERNELS``."""


class ScalarGemm(GemmU8):
    """Plain loops: neither vectors nor tiles nor packed operands, whatever the config."""

    name: ClassVar[str] = "gemm_scalar"

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        a = hl.ImageParam(hl.UInt(8), 2, "A")
        b = hl.ImageParam(hl.UInt(8), 2, "B")
        k = hl.RDom([(0, a.dim(0).extent())], "k")
        sums, c = hl.Func("sums"), hl.Func("C")
        sums[x, y] = hl.u32(0)
        sums[x, y] += hl.u32(a[k, y]) * hl.u32(b[x, k])
        c[x, y] = sums[x, y]
        return HalidePipeline((a, b), c, {"sums": sums, "C": c})

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        return [Directive("C", "compute_root"), Directive("sums", "compute_at", ("C", "x"))]


class ThreadedGemm(GemmU8):
    """The outer loop over tiles of C shared out among HVX contexts."""

    name: ClassVar[str] = "gemm_threads"

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        outer = "xo" if config.text("order") == "rows_inner" else "yo"
        return [*super().schedule(problem, config), Directive("C", "parallel", (outer,))]


class StagedAdd(AddU8):
    """Both operands copied to VTCM first: nothing is used twice, so that nothing can be won."""

    name: ClassVar[str] = "add_vtcm"

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        inputs = tuple(hl.ImageParam(hl.UInt(8), 2, name) for name in ("a", "b"))
        staged = tuple(hl.Func(f"staged_{name}") for name in ("a", "b"))
        for copy, operand in zip(staged, inputs, strict=True):
            copy[x, y] = operand[x, y]
        output = hl.Func("output")
        output[x, y] = quantized_sum(*(copy[x, y] for copy in staged), params)
        stages = {"staged_a": staged[0], "staged_b": staged[1], "output": output}
        return HalidePipeline(inputs, output, stages)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        steps = Steps()
        for operand in ("staged_a", "staged_b"):
            copy = steps.stage(operand).compute_root()
            copy.vectorize("x", problem.target.lanes(1))
        staged = [Directive(f, "store_in", ("VTCM",)) for f in ("staged_a", "staged_b")]
        return [*super().schedule(problem, config), *steps.directives, *staged]
