"""Objects for measurers and devices to run, made from C: well, or wrong in one chosen way.

They solve a tiny kernel of their own. The suites that use them make it known by ``HVXTUNE_KERNELS``
and :data:`KERNEL`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tuner.codegen.toolchain import NativePart, built
from tuner.identity import digest_of_bytes
from tuner.kernels.kernel import Array, HalidePipeline, Kernel, Param, WorkCounts
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact, Problem
from tuner.space import Config, Directive, Knob, Space, TailStrategy

KERNEL = "scale_u8=tuner.conformance.candidates:ScaleU8"
_SOURCE = Path(__file__).with_name("scale_u8.c")
_BUFFERS = Path(__file__).with_name("halide_buffer.h")


class ScaleU8(Kernel):
    """``out = in + 1`` modulo 256 on rows of ``n`` bytes."""

    name = "scale_u8"
    summary = "adds one to every byte (test kernel)"
    params = (Param("h", 4, "rows"), Param("n", 512, "bytes a row"))

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        shape = (params["h"], params["n"])
        return (
            BufferSpec("input", "uint8", shape, "input"),
            BufferSpec("output", "uint8", shape, "output"),
        )

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        return [inputs[0] + np.uint8(1)]

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        size = params["h"] * params["n"]
        return WorkCounts(macs=0, lane_ops=size, read_bytes=size, written_bytes=size)

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        source = hl.ImageParam(hl.UInt(8), 2, "input")
        output = hl.Func("output")
        output[x, y] = source[x, y] + hl.u8(1)
        return HalidePipeline([source], output, {"output": output})

    def space(self, problem: Problem) -> Space:
        return Space(
            kernel=self.name,
            knobs=(
                Knob("vectors", tuple(range(1, 9)), "vectors a step"),
                Knob("unroll_rows", tuple(range(1, 9)), "rows a step"),
                Knob("behave", self.behaviours, "what to do wrong"),
            ),
            constants={"lanes": problem.target.lanes(1)},
        )

    behaviours: tuple[str, ...] = ("well",)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        lanes = problem.target.lanes(1)
        tail = TailStrategy.GUARD_WITH_IF
        return [
            Directive(
                "output", "split", ("x", "xo", "xi", lanes * config.integer("vectors"), tail)
            ),
            Directive("output", "vectorize", ("xi", lanes, TailStrategy.ROUND_UP)),
            Directive("output", "unroll", ("xi",)),
            Directive("output", "unroll", ("y", config.integer("unroll_rows"), tail)),
        ]

    def default_config(self, problem: Problem) -> Config:
        return Config({"vectors": 1, "unroll_rows": 1, "behave": "well"})

    def textbook_config(self, problem: Problem) -> Config:
        return Config({"vectors": 2, "unroll_rows": 2, "behave": "well"})


def scale_problem(contract: Contract = Contract.STATIC, h: int = 4, n: int = 500) -> Problem:
    """The problem that ``scale_u8.c`` solves. Its rows do not fill whole vectors."""
    return ScaleU8().problem({"h": h, "n": n}, contract, find_target("hexagon-v66"))


def scale_artifact(
    problem: Problem, behaviour: str = "WELL", flags: tuple[str, ...] = ()
) -> Artifact:
    """``scale_u8.c`` compiled to do ``behaviour`` (an ``enum behaviour`` of it).

    For a phone it must be compiled with the flag ``-fPIC``.
    """
    return artifact_of(
        _SOURCE,
        problem.symbol,
        (f"-DENTRY={problem.symbol}", f"-DBEHAVIOUR={behaviour}", *flags),
    )


def artifact_of(source: Path, symbol: str, flags: tuple[str, ...] = ()) -> Artifact:
    """The object of one source file, as an artifact with entry ``symbol``. It may include
    ``halide_buffer.h`` of this folder."""
    part = NativePart(
        name=f"test-{source.stem}",
        machine="hexagon",
        sources=(source,),
        headers=(_BUFFERS,),
        arch="v66",
        flags=(f"-I{_BUFFERS.parent}", *flags),
    )
    data = built(part).read_bytes()
    return Artifact(digest_of_bytes(data), symbol, {"object": data})
