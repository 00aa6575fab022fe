"""The events that the plugin counts, by name: cycles follow from them.

Mirrors ``plugin/events.h`` and the traits of ``plugin/packet.h``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64]

EVENTS = (
    "packets",
    "stalls",
    "vector_packets",
    "mispredicts",
    "loop_ends",
    "scalar_accesses",
    "l1_misses",
    "l2_accesses",
    "l2_misses",
    "line_splits",
    "store_to_load",
    "vtcm_accesses",
    "gathers",
    "scatters",
    "ddr_read_bytes",
    "ddr_written_bytes",
    "prefetched_lines",
    "tasks",
    "parallel_loops",
)
"""Events by position. ``stalls`` and ``store_to_load`` are packet times, ``ddr_*`` bytes, the
others are numbers of times. ``plugin/events.h`` says what each means."""

WINDOWS = (4, 8, 16, 32, 64, 128)
"""Packet times within which waits for memory overlap: counted for each of these distances."""
LEADS = (0, 1, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Packet times by which a line was asked for ahead of its use: lower bounds of classes. The first
class is lines nobody asked for, the last one lines that have certainly arrived."""

INDEX = {name: position for position, name in enumerate(EVENTS)}
"""Event name to its position."""
WAITS = len(EVENTS)
"""Position of the first group of waits; windows outside, leads inside."""
EVENT_COUNT = WAITS + len(WINDOWS) * len(LEADS)

TRAITS = {
    "vector": 1,
    "scalar load": 2,
    "scalar store": 4,
    "vector load": 8,
    "vector store": 16,
    "unaligned load": 32,
    "unaligned store": 64,
    "gather": 128,
    "scatter": 256,
    "prefetch": 512,
    "conditional jump": 1024,
    "loop end": 2048,
}
"""Kinds of packets: bits of the packet table's ``traits``."""


@dataclass(frozen=True)
class Events:
    """The events of one timed call, stretch by stretch.

    ``counts`` has shape (stretches, ``EVENT_COUNT``). ``loops`` says for each stretch which
    parallel loop it is a task of; 0 for serial code. Stretches are in the order of the program.
    """

    counts: Counts
    loops: NDArray[np.int64]

    @property
    def total(self) -> Counts:
        """All stretches together: shape (``EVENT_COUNT``,)."""
        summed: Counts = self.counts.sum(axis=0)
        return summed

    def count(self, name: str) -> int:
        """How often (or how many bytes, or packet times) in the whole call."""
        return int(self.counts[:, INDEX[name]].sum())

    @property
    def has_parallel_loops(self) -> bool:
        """Whether any stretch is a task."""
        return bool(self.loops.any())

    def as_dict(self) -> dict[str, Any]:
        """JSON form, for samples that are kept: only what is not zero."""
        return {
            "loops": self.loops.tolist(),
            "counts": [
                {name_of(int(i)): int(row[i]) for i in np.flatnonzero(row)} for row in self.counts
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Events:
        """The inverse of :meth:`as_dict`. Raises ``KeyError`` for an event nobody knows."""
        positions = _positions()
        counts = np.zeros((len(data["counts"]), EVENT_COUNT))
        for row, named in zip(counts, data["counts"], strict=True):
            for name, value in named.items():
                row[positions[name]] = value
        return cls(counts, np.array(data["loops"], np.int64))


@cache
def _positions() -> dict[str, int]:
    return {name_of(i): i for i in range(EVENT_COUNT)}


def name_of(position: int) -> str:
    """Name of an event: that of ``EVENTS``, or ``wait_WINDOW_LEAD`` for a group of waits."""
    if position < WAITS:
        return EVENTS[position]
    window, lead = divmod(position - WAITS, len(LEADS))
    return f"wait_{WINDOWS[window]}_{LEADS[lead]}"
