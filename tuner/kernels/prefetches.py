"""Inputs that are asked for some iterations before they are read, where L2 does not hold them.

Buffers that fit L2 together are there when a call begins with warm caches, as is measured
unless somebody asks otherwise: their spaces have no such knob.

Halide 21 asks for dense rows by one ``l2fetch``, whose width has 16 bits: of 64 KiB and more, what
lies beyond is not asked for. Nothing is wrong then, but tiles of fewer rows are faster.
"""

from __future__ import annotations

from collections.abc import Iterable

from tuner.problem.buffers import BufferSpec
from tuner.problem.target import Target
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

KNOB = Knob("prefetch", (0, 1, 2, 4), "rows of tiles that inputs are asked for ahead")
TEXTBOOK: dict[str, KnobValue] = {KNOB.name: 2}
"""Two rows of tiles ahead, as in Halide's own schedules for HVX."""
STEPS = 16
"""Steps along a row that are about as long as the row of a tile: DDR takes some 100 packets."""


def streams(problem: Problem, buffers: Iterable[BufferSpec]) -> bool:
    """Whether L2 does not hold all ``buffers`` of a call together."""
    return sum(buffer.payload_bytes for buffer in buffers) > problem.target.l2_bytes


def distance(config: Config) -> int:
    """Rows of tiles to ask ahead; 0 for not at all."""
    return config.integer(KNOB.name) if KNOB.name in config else 0


def rows(distance: int, row_bytes: int, target: Target) -> int:
    """As many rows of ``row_bytes`` as are about as long as ``distance`` rows of tiles."""
    return max(1, distance * STEPS * target.vector_bytes // row_bytes)
