"""Functions of single elements of u8 images: rows and columns in tiles, nothing kept.

Such kernels are :class:`Pointwise`: they have one stage, ``output``, over ``x`` and ``y``, and
share space and schedule.

Halide guards a vector that reaches beyond a row by computing its elements one by one. Where that
is hopeless (long code, or code that Halide 21 cannot make), ``whole_vectors`` leaves the guard out:
no tile is wider than a row, and rows narrower than a vector are left to scalar code.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import ClassVar

from tuner.kernels import tiling
from tuner.kernels.kernel import BufferSpec, Kernel, Param, Problem
from tuner.problem.contract import Contract
from tuner.space import Config, Constraint, Directive, Knob, KnobValue, Space
from tuner.space.directives import Stage, Steps, TailStrategy, tail

_UNROLLS = (1, 2, 3, 4, 6, 8)
_STEP_X = "vector_lanes * unroll_x"


class Pointwise(Kernel):
    """A function of one element of each image. Its rows are as long as those of buffer ``row``."""

    row: ClassVar[int] = 0
    whole_vectors: ClassVar[bool] = False
    params: ClassVar[tuple[Param, ...]] = (
        Param("width", 512, "elements of a row"),
        Param("height", 64, "rows"),
    )

    def space(self, problem: Problem) -> Space:
        params, lanes = problem.workload.params, problem.target.lanes(1)
        width = params["width"]
        inner = ("width", width, self._row(problem))
        constants = {
            **tiling.extents(problem, inner, height=params["height"]),
            "static": int(problem.contract is Contract.STATIC),
        }
        knobs = _knobs(lanes, streams=tiling.streams(problem, self.buffers(params)))
        constraints = _CONSTRAINTS + _TAILS
        if self.whole_vectors:
            steps = [step for step in _UNROLLS if step * lanes <= max(width, lanes)]
            knobs = tuple(
                replace(knob, choices=tuple(steps)) if knob.name == "unroll_x" else knob
                for knob in knobs
                if knob.name != "tail_x"
            )
            constraints = (*_CONSTRAINTS, _WHOLE_VECTORS, _TAILS[1])
        return Space(problem.workload.kernel, knobs, constraints, constants)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        lanes = config.integer("vector_lanes")
        steps = Steps()
        output = steps.stage("output").compute_root()
        output.split("y", "yo", "yi", config.integer("tile_rows"), tail(config, "tail_y"))
        step = lanes * config.integer("unroll_x")
        tail_x = self._tail_x(problem, step) if self.whole_vectors else tail(config, "tail_x")
        output.split("x", "xo", "xi", step, tail_x)
        output.split("xi", "xu", "xi", lanes, TailStrategy.ROUND_UP)
        inner, outer = "xo", "yo"
        if config.text("order") == "rows_inner":
            inner, outer = outer, inner
        if config.text("walk") == "down":
            output.reorder("xi", "xu", "yi", inner, outer).unroll("yi")
        elif inner == "xo":
            output.reorder("xi", "xu", "xo", "yi", "yo")
        else:
            output.reorder("xi", "xu", "yi", "yo", "xo")
        if not self.whole_vectors or tail_x is not TailStrategy.GUARD_WITH_IF:
            output.vectorize("xi").unroll("xu")
        if config.is_on("fuse"):
            output.fuse(inner, outer, "tiles")
        self._prefetch(output, problem, config)
        return steps.directives

    def textbook_config(self, problem: Problem) -> Config:
        """Two vectors at a time and four rows, the layout of Halide's HVX examples."""
        wanted: dict[str, KnobValue] = {
            "vector_lanes": 2 * problem.target.lanes(1),
            "tile_rows": 4,
            "walk": "down",
            **tiling.TEXTBOOK_PREFETCH,
        }
        return self.space(problem).nearest_config(wanted)

    def _prefetch(self, output: Stage, problem: Problem, config: Config) -> None:
        distance = tiling.prefetch_distance(config)
        if not distance:
            return
        loop = "tiles" if config.is_on("fuse") else "yo"
        if loop == "tiles" or config.text("order") == "rows_inner":
            distance *= tiling.PREFETCH_STEPS
        for spec in self.buffers(problem.workload.params):
            if spec.role == "input" and spec.promised:  # tables are in the cache soon
                output.prefetch(spec.name, loop, distance)

    def _row(self, problem: Problem) -> BufferSpec:
        return self.buffers(problem.workload.params)[self.row]

    def _tail_x(self, problem: Problem, step: int) -> TailStrategy:
        """The only strategy that keeps vectors whole; with a guard the loop is not vectorized."""
        width = problem.workload.params["width"]
        if tiling.known_multiple(problem, width, self._row(problem)) % step == 0:
            return TailStrategy.ROUND_UP
        return TailStrategy.SHIFT_INWARDS if width >= step else TailStrategy.GUARD_WITH_IF


@cache
def _knobs(lanes: int, *, streams: bool) -> tuple[Knob, ...]:
    """All knobs. They are the same for every shape, which their conditions name by constants."""
    return (
        Knob("vector_lanes", (lanes, 2 * lanes, 4 * lanes), "elements of a vector"),
        Knob("unroll_x", _UNROLLS, "vectors in one iteration"),
        Knob("tile_rows", (1, 2, 3, 4, 6, 8), "rows of a tile"),
        Knob("walk", ("across", "down"), "order inside a tile: row by row, or unrolled down"),
        Knob("order", ("columns_inner", "rows_inner"), "inner loop over tiles"),
        # With extents not known, a fused loop divides in every iteration.
        Knob(
            "fuse",
            ("off", "on"),
            "both loops over tiles made one",
            when="static == 1 and walk == 'down'",
        ),
        tiling.tail_knob("tail_x", _STEP_X, "width_multiple"),
        tiling.tail_knob("tail_y", "tile_rows", "height_multiple"),
        *tiling.prefetch_knobs(streams=streams),
    )


_CONSTRAINTS = (
    Constraint(
        "vector_lanes // byte_lanes * unroll_x * tile_rows <= 32",
        "longer loop bodies take seconds to compile and are never faster",
    ),
)
_TAILS = (
    tiling.tail_constraint("tail_x", _STEP_X, "width"),
    tiling.tail_constraint("tail_y", "tile_rows", "height"),
)
_WHOLE_VECTORS = Constraint(
    f"{_STEP_X} <= width or (width < byte_lanes and {_STEP_X} == byte_lanes)",
    "a tile wider than the row would be guarded, element by element",
)
