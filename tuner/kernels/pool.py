"""Pooling of u8 NHWC images as stages: combine down the columns of a window, then along its row.

Channels are the vector lanes. ``columns`` holds, for a row of the output, what each pixel column of
the input comes to; neighbouring windows that overlap can share them. ``combined`` holds what whole
windows come to, and ``output`` is a copy of that. Kernels of this shape are :class:`Pool`: they say
where windows lie and how values combine, and share space and schedule.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from tuner.kernels import prefetches
from tuner.kernels.kernel import Kernel, Param
from tuner.kernels.settle import settle
from tuner.kernels.tiling import known_multiple, tail, tail_constraint, tail_knob
from tuner.problem.buffers import BufferSpec
from tuner.records.candidate import Problem
from tuner.space import Config, Constraint, Directive, Knob, KnobValue, Space, TailStrategy
from tuner.space.steps import Steps

WINDOW = (
    Param("size", 3, "rows and columns of a window", 1, 7, is_extent=False),
    Param("stride", 2, "pixels from window to window, both ways", 1, 7, is_extent=False),
)


def image(role: Literal["input", "output"], shape: tuple[int, int, int]) -> BufferSpec:
    """The u8 image of ``shape`` (rows, pixels of a row, channels) that is named for its role."""
    return BufferSpec(role, "uint8", shape, role)


class Pool(Kernel):
    """One value for each window of ``input`` (u8, NHWC without N), by the stages ``columns``,
    ``combined`` and ``output``."""

    def space(self, problem: Problem) -> Space:
        params, output = problem.workload.params, self._output(problem)
        height, width, channels = output.shape
        constants = {
            "height": height,
            "width": width,
            "channels": channels,
            "size": params["size"],
            "height_multiple": known_multiple(problem, height),
            "width_multiple": known_multiple(problem, width),
            "channels_multiple": known_multiple(problem, channels, output),
            "byte_lanes": problem.target.lanes(1),
        }
        streams = prefetches.streams(problem, self.buffers(params))
        knobs = _knobs(streams=streams)
        return Space(problem.workload.kernel, knobs, _CONSTRAINTS, constants)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        lanes = problem.target.lanes(1)
        steps = Steps()
        output = steps.stage("output").compute_root()
        output.split("c", "co", "ci", lanes, tail(config, "tail_c"))
        output.split("x", "xo", "xi", config.integer("tile_x"), tail(config, "tail_x"))
        output.split("y", "yo", "yi", config.integer("tile_y"), tail(config, "tail_y"))
        outer = ("xo", "yo", "co")
        if config.text("order") == "channels_inner":
            outer = ("co", "xo", "yo")
        tile = ("xi", "yi") if config.text("walk") == "across" else ("yi", "xi")
        output.reorder("ci", *tile, *outer).vectorize("ci").unroll("xi").unroll("yi")
        if tail(config, "tail_c") is TailStrategy.GUARD_WITH_IF:
            # Guarding every operation would take them one by one: only the copy is guarded.
            combined = steps.stage("combined").compute_at("output", outer[0])
            combined.reorder("c", *(loop[0] for loop in tile))
            combined.vectorize("c", lanes, TailStrategy.ROUND_UP).unroll("x").unroll("y")
        if config.text("columns_at") == "tile":
            columns = steps.stage("columns").compute_at("output", outer[0])
            columns.vectorize("c", lanes, TailStrategy.ROUND_UP).unroll("x").unroll("y")
        if (distance := prefetches.distance(config)) > 0:
            output.prefetch("input", "yo", distance)
        return steps.directives

    def default_config(self, problem: Problem) -> Config:
        """Every choice the first there is."""
        return settle(self.space(problem), {})

    def textbook_config(self, problem: Problem) -> Config:
        """Eight results in flight, in two rows, or as many as there are.

        Single rows where L2 does not hold the image: more of its rows are no single ``l2fetch``.
        """
        height, width, _ = self._output(problem).shape
        wanted: dict[str, KnobValue] = {
            "order": "channels_inner",
            "tile_x": max(n for n in (1, 2, 4) if n <= width),
            "tile_y": max(n for n in (1, 2) if n <= height),
        }
        if prefetches.streams(problem, self.buffers(problem.workload.params)):
            wanted |= {"tile_y": 1, **prefetches.TEXTBOOK}
        return settle(self.space(problem), wanted)

    def _output(self, problem: Problem) -> BufferSpec:
        return self.buffers(problem.workload.params)[1]


@cache
def _knobs(*, streams: bool) -> tuple[Knob, ...]:
    """All knobs. They are the same for every shape, which their conditions name by constants."""
    return (
        Knob("order", ("channels_outer", "channels_inner"), "loops over blocks of channels"),
        Knob("tile_x", (1, 2, 4, 8), "pixels of a row in a tile"),
        Knob("tile_y", (1, 2, 4), "rows of a tile"),
        Knob("columns_at", ("inline", "tile"), "columns of windows: anew for each, or per tile"),
        Knob("walk", ("across", "down"), "order inside a tile: row by row, or column by column"),
        tail_knob("tail_c", "byte_lanes", "channels_multiple"),
        tail_knob("tail_x", "tile_x", "width_multiple"),
        tail_knob("tail_y", "tile_y", "height_multiple"),
        *((prefetches.KNOB,) if streams else ()),
    )


_CONSTRAINTS = (
    Constraint(
        "tile_x * tile_y * size <= 48",
        "longer loop bodies take seconds to compile and are never faster",
    ),
    Constraint(
        "columns_at == 'tile' or tile_x * tile_y * size * size <= 144",
        "longer loop bodies take seconds to compile and are never faster",
    ),
    tail_constraint("tail_c", "byte_lanes", "channels"),
    tail_constraint("tail_x", "tile_x", "width"),
    tail_constraint("tail_y", "tile_y", "height"),
)
