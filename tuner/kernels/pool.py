"""Pooling of u8 NHWC images as stages: combine down the columns of a window, then along its row.

Channels are the vector lanes. ``columns`` holds, for a row of the output, each pixel column of the
input reduced; neighbouring windows that overlap can share them. ``combined`` holds whole windows
reduced, and ``output`` is a copy of that. Kernels of this shape are :class:`Pool`: they say
where windows lie and how values combine, and share space and schedule.
"""

from __future__ import annotations

from functools import cache

from tuner.kernels import tiling
from tuner.kernels.kernel import BufferSpec, Kernel, Param, Problem
from tuner.space import Config, Constraint, Directive, Knob, KnobValue, Space
from tuner.space.directives import Steps, TailStrategy, tail

WINDOW = (
    Param("size", 3, "rows and columns of a window", 1, 7, is_extent=False),
    Param("stride", 2, "pixels from window to window, both ways", 1, 7, is_extent=False),
)


class Pool(Kernel):
    """One value for each window of ``input`` (u8, NHWC without N), by the stages ``columns``,
    ``combined`` and ``output``."""

    def space(self, problem: Problem) -> Space:
        params, output = problem.workload.params, self._output(problem)
        height, width, channels = output.shape
        constants = {
            **tiling.extents(problem, ("channels", channels, output), height=height, width=width),
            "size": params["size"],
        }
        knobs = _knobs(streams=tiling.streams(problem, self.buffers(params)))
        return Space(problem.workload.kernel, knobs, _CONSTRAINTS, constants)

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        lanes = problem.target.lanes(1)
        steps = Steps()
        output = steps.stage("output").compute_root()
        output.split("c", "co", "ci", lanes, tail(config, "tail_c"))
        outer = tiling.tile_pixels(output, config)
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
        if (distance := tiling.prefetch_distance(config)) > 0:
            output.prefetch("input", "yo", distance)
        return steps.directives

    def textbook_config(self, problem: Problem) -> Config:
        """Eight results in flight, in two rows, or fewer in a smaller image.

        Single rows where L2 does not hold the image: one ``l2fetch`` does not fetch more rows.
        """
        height, width, _ = self._output(problem).shape
        wanted: dict[str, KnobValue] = {
            "order": "channels_inner",
            "tile_x": max(n for n in (1, 2, 4) if n <= width),
            "tile_y": max(n for n in (1, 2) if n <= height),
        }
        if tiling.streams(problem, self.buffers(problem.workload.params)):
            wanted |= {"tile_y": 1, **tiling.TEXTBOOK_PREFETCH}
        return self.space(problem).nearest_config(wanted)

    def _output(self, problem: Problem) -> BufferSpec:
        return self.buffers(problem.workload.params)[1]


@cache
def _knobs(*, streams: bool) -> tuple[Knob, ...]:
    """All knobs. They are the same for every shape, which their conditions name by constants."""
    return (
        Knob("order", ("channels_outer", "channels_inner"), "loops over blocks of channels"),
        Knob("tile_x", (1, 2, 4, 8), "pixels of a row in a tile"),
        Knob("tile_y", (1, 2, 4), "rows of a tile"),
        Knob(
            "columns_at",
            ("inline", "tile"),
            "columns of windows: computed for each, or once per tile",
        ),
        Knob("walk", ("across", "down"), "order inside a tile: row by row, or column by column"),
        tiling.tail_knob("tail_c", "byte_lanes", "channels_multiple"),
        tiling.tail_knob("tail_x", "tile_x", "width_multiple"),
        tiling.tail_knob("tail_y", "tile_y", "height_multiple"),
        *tiling.prefetch_knobs(streams=streams),
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
    tiling.tail_constraint("tail_c", "byte_lanes", "channels"),
    tiling.tail_constraint("tail_x", "tile_x", "width"),
    tiling.tail_constraint("tail_y", "tile_y", "height"),
)
