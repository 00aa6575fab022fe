"""A tiny kernel for tests: every byte plus one; and one that misbehaves on purpose.

Set the environment variable ``HVXTUNE_KERNELS`` to :data:`KERNELS` to use them.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping, Sequence

import numpy as np

from tuner.kernels.kernel import (
    Array,
    BufferSpec,
    HalidePipeline,
    Kernel,
    Param,
    Problem,
    WorkCounts,
)
from tuner.space import Config, Directive, Knob, Space, TailStrategy

KERNELS = "scale_u8=tests.rig.scale_u8:ScaleU8,hostile_u8=tests.rig.scale_u8:HostileU8"


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


class HostileU8(ScaleU8):
    """Like ``scale_u8``, but its knob ``behave`` breaks the compiler."""

    name = "hostile_u8"
    behaviours = ("well", "hang", "abort", "segfault", "exit", "memory", "raise")

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        behave = config["behave"]
        if behave == "hang":
            open("hangs", "w").close()  # in the scratch directory, for who waits until it does
            time.sleep(3600)
        elif behave == "abort":
            os.abort()
        elif behave == "segfault":
            ctypes.string_at(0)
        elif behave == "exit":
            os._exit(0)
        elif behave == "memory":
            bytearray(1 << 40)
        elif behave == "raise":
            raise RuntimeError("this schedule cannot be applied")
        return super().schedule(problem, config)
