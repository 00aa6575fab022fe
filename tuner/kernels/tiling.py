"""Knobs that hand-written kernels share: tails of tiles, and prefetching.

**Tails.** Where a tile does not divide an extent, rounding the loop up is fastest, but touches
elements beyond the extent: it is used exactly where the contract makes the extent a known multiple
of the tile. Elsewhere the last tile is either moved back inside (it recomputes some elements, and
the extent must hold at least one tile) or guarded element by element (right for every extent, slow
at the edge).

**Prefetching.** Inputs are fetched some iterations before they are read, where L2 does not hold all
buffers of a call. Buffers that fit L2 together are there when a call begins with warm caches, as is
measured by default: their spaces have no such knob. Halide 21 fetches dense rows by one
``l2fetch``, whose width has 16 bits: of 64 KiB and more, the rest is not fetched. Nothing is wrong
then, but tiles of fewer rows are faster.
"""

from __future__ import annotations

from collections.abc import Iterable

from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.problem.workload import Problem
from tuner.space import Config, Constraint, Knob, KnobValue, Stage, tail

_PREFETCH = Knob("prefetch", (0, 1, 2, 4), "rows of tiles that inputs are asked for ahead")
TEXTBOOK_PREFETCH: dict[str, KnobValue] = {_PREFETCH.name: 2}
"""Two rows of tiles ahead, as in Halide's own schedules for HVX."""
PREFETCH_STEPS = 16
"""Steps along a row that take about as long as the row of a tile: DDR takes about 100 packets."""


def known_multiple(problem: Problem, extent: int, inner: BufferSpec | None = None) -> int:
    """A number of elements that the contract promises ``extent`` to be divisible by.

    A static extent is its own multiple. ``inner`` is the buffer whose innermost extent it is, if
    any: the ``extent`` contract promises whole vectors of that buffer.
    """
    if problem.contract is Contract.STATIC:
        return extent
    if problem.contract is Contract.EXTENT and inner is not None and inner.promised:
        return problem.target.vector_alignment_bytes // inner.element_bytes
    return 1


def extents(
    problem: Problem, inner: tuple[str, int, BufferSpec], **outer: int
) -> dict[str, KnobValue]:
    """The constants that conditions on tails name: each extent, its :func:`known_multiple` as
    ``NAME_multiple``, and ``byte_lanes``. ``inner`` has the buffer whose innermost extent it is."""
    name, extent, buffer = inner
    return {
        name: extent,
        f"{name}_multiple": known_multiple(problem, extent, buffer),
        **outer,
        **{f"{each}_multiple": known_multiple(problem, value) for each, value in outer.items()},
        "byte_lanes": problem.target.lanes(1),
    }


def tail_knob(name: str, tile: str, multiple: str) -> Knob:
    """The choice of tail where ``multiple`` is not divisible by ``tile`` (both expressions)."""
    return Knob(
        name,
        ("shift_inwards", "guard_with_if"),
        f"last tile, where {tile} does not divide the extent",
        when=f"{multiple} % ({tile}) != 0",
    )


def tail_constraint(name: str, tile: str, extent: str) -> Constraint:
    """Forbids moving the last tile inwards where ``extent`` does not hold one tile."""
    return Constraint(
        f"{name} == 'guard_with_if' or {extent} >= {tile}",
        "a tile can only be moved inwards if the extent holds at least one",
    )


def streams(problem: Problem, buffers: Iterable[BufferSpec]) -> bool:
    """Whether L2 does not hold all ``buffers`` of a call together."""
    return sum(buffer.payload_bytes for buffer in buffers) > problem.target.l2_bytes


def prefetch_knobs(*, streams: bool) -> tuple[Knob, ...]:
    """The knob of prefetching, in spaces of calls that :func:`streams`."""
    return (_PREFETCH,) if streams else ()


def prefetch_distance(config: Config) -> int:
    """Rows of tiles to fetch ahead; 0 for none."""
    return config.integer(_PREFETCH.name) if _PREFETCH.name in config else 0


def prefetch_rows(distance: int, row_bytes: int, target: Target) -> int:
    """How many rows of ``row_bytes`` are about as long as ``distance`` rows of tiles."""
    return max(1, distance * PREFETCH_STEPS * target.vector_bytes // row_bytes)


def tile_pixels(output: Stage, config: Config) -> tuple[str, ...]:
    """Splits ``x`` and ``y`` of an NHWC output into tiles. Returns the loops over them and over
    blocks of channels, innermost first."""
    output.split("x", "xo", "xi", config.integer("tile_x"), tail(config, "tail_x"))
    output.split("y", "yo", "yi", config.integer("tile_y"), tail(config, "tail_y"))
    channels_inner = config.text("order") == "channels_inner"
    return ("co", "xo", "yo") if channels_inner else ("xo", "yo", "co")
