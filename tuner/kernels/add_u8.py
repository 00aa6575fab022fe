"""Sum of two quantized u8 tensors with a scale each, requantized to u8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from tuner.buffers import BufferSpec
from tuner.candidate import Problem
from tuner.kernels.kernel import Array, HalidePipeline, Kernel, Param, WorkCounts
from tuner.kernels.settle import settle
from tuner.kernels.steps import Steps
from tuner.kernels.tails import known_multiple, tail, tail_constraint, tail_knob
from tuner.space import Config, Constraint, Directive, Knob, Space, TailStrategy

_STEP_X = "lanes * vectors * unroll_x"
_ROUND_UP = TailStrategy.ROUND_UP


class AddU8(Kernel):
    """output = clip(round((a - zero_a) multiplier_a + (b - zero_b) multiplier_b) / 2^shift)
    + zero_out, 0, 255), halves rounded up.

    A scale of each operand relative to the output is its multiplier over ``2 ** shift``. The
    multipliers end at 128 so that both products and their sum fit 16 bits without a sign, which
    is how HVX adds fastest; every sum that saturates there is beyond the clip anyway.
    """

    name: ClassVar[str] = "add_u8"
    summary: ClassVar[str] = "requantized add of two u8 tensors with a scale each"
    params: ClassVar[tuple[Param, ...]] = (
        Param("width", 512, "elements of a row"),
        Param("height", 64, "rows"),
        Param("multiplier_a", 120, "scale of a, times 2^shift", 0, 128, is_extent=False),
        Param("multiplier_b", 90, "scale of b, times 2^shift", 0, 128, is_extent=False),
        Param("shift", 8, "binary digits of the multipliers' fraction", 1, 8, is_extent=False),
        Param("zero_a", 128, "what stands for 0 in a", 0, 255, is_extent=False),
        Param("zero_b", 128, "what stands for 0 in b", 0, 255, is_extent=False),
        Param("zero_out", 128, "what stands for 0 in the output", 0, 255, is_extent=False),
    )

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        shape = (params["height"], params["width"])
        return (
            BufferSpec("a", "uint8", shape, "input"),
            BufferSpec("b", "uint8", shape, "input"),
            BufferSpec("output", "uint8", shape, "output"),
        )

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        a = (inputs[0].astype(np.int32) - params["zero_a"]) * params["multiplier_a"]
        b = (inputs[1].astype(np.int32) - params["zero_b"]) * params["multiplier_b"]
        shift = params["shift"]
        scaled = (a + b + (1 << (shift - 1))) >> shift
        return [np.clip(scaled + params["zero_out"], 0, 255).astype(np.uint8)]

    def work(self, params: Mapping[str, int]) -> WorkCounts:
        # Per element two multiplies, and on 16 bits the bias and the narrowing shift.
        size = params["width"] * params["height"]
        return WorkCounts(
            macs=2 * size, lane_ops=2 * 2 * size, read_bytes=2 * size, written_bytes=size
        )

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        a = hl.ImageParam(hl.UInt(8), 2, "a")
        b = hl.ImageParam(hl.UInt(8), 2, "b")
        # All zero points together: one constant, added or taken away with saturation at 0.
        bias = params["zero_out"] << params["shift"]
        bias -= params["zero_a"] * params["multiplier_a"]
        bias -= params["zero_b"] * params["multiplier_b"]
        products = hl.widening_mul(a[x, y], hl.u8(params["multiplier_a"]))
        products += hl.widening_mul(b[x, y], hl.u8(params["multiplier_b"]))
        if bias >= 0:
            moved = hl.saturating_add(products, hl.u16(bias))
        else:
            moved = hl.saturating_sub(products, hl.u16(-bias))
        output = hl.Func("output")
        output[x, y] = hl.u8_sat(hl.rounding_shift_right(moved, hl.u16(params["shift"])))
        return HalidePipeline((a, b), output, {"output": output})

    def space(self, problem: Problem) -> Space:
        params = problem.workload.params
        row = self.buffers(params)[0]
        constants = {
            "width": params["width"],
            "height": params["height"],
            "lanes": problem.target.lanes(1),
            "width_multiple": known_multiple(problem, params["width"], row),
            "height_multiple": known_multiple(problem, params["height"]),
        }
        knobs = (
            Knob("vectors", (1, 2, 4), "native vectors computed as one wide vector"),
            Knob("unroll_x", (1, 2, 3, 4, 6, 8), "wide vectors in one iteration"),
            Knob("tile_rows", (1, 2, 4, 8), "rows of a tile"),
            Knob("walk", ("down", "across"), "order inside a tile: by column, or row by row"),
            Knob("unroll_rows", ("off", "on"), "rows of a tile in one iteration", "tile_rows > 1"),
            Knob("fuse", ("off", "on"), "one loop over the tiles of all rows", "walk == 'down'"),
            tail_knob("tail_x", _STEP_X, "width_multiple"),
            tail_knob("tail_y", "tile_rows", "height_multiple"),
        )
        return Space(self.name, knobs, _CONSTRAINTS, constants)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        vector = problem.target.lanes(1) * config.integer("vectors")
        step = vector * config.integer("unroll_x")
        steps = Steps()
        output = steps.stage("output").compute_root()
        output.split("y", "tile", "row", config.integer("tile_rows"), tail(config, "tail_y"))
        output.split("x", "xo", "xi", step, tail(config, "tail_x"))
        output.split("xi", "xu", "xi", vector, _ROUND_UP)
        if config.text("walk") == "down":
            output.reorder("xi", "xu", "row", "xo", "tile")
        else:
            output.reorder("xi", "xu", "xo", "row", "tile")
        output.vectorize("xi").unroll("xu")
        if config.is_on("unroll_rows"):
            output.unroll("row")
        if config.is_on("fuse"):
            output.fuse("xo", "tile", "block")
        return steps.directives

    def default_config(self, problem: Problem) -> Config:
        return settle(self.space(problem), {})

    def textbook_config(self, problem: Problem) -> Config:
        """Pairs of vectors, as widening makes pairs, and two of them in an iteration."""
        return settle(self.space(problem), {"vectors": 2, "unroll_x": 2})


_CONSTRAINTS = (
    Constraint(
        "vectors * unroll_x * tile_rows <= 32",
        "longer loop bodies take seconds to compile and are never faster",
    ),
    Constraint(
        "walk == 'down' or unroll_rows == 'off'",
        "rows of a tile walked across are far apart: nothing to gain from unrolling them",
    ),
    tail_constraint("tail_x", _STEP_X, "width"),
    tail_constraint("tail_y", "tile_rows", "height"),
)
