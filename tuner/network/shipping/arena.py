"""Offsets of buffers in one arena: those never needed at the same time share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lifetime:
    """A buffer of ``size_bytes``, needed from step ``first`` to step ``last``, both included."""

    size_bytes: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether a step needs both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """``offsets`` (bytes) of buffers in ``size_bytes``. ``bound_bytes`` are those alive at one step
    at most: no arena is smaller."""

    offsets: tuple[int, ...]
    size_bytes: int
    bound_bytes: int


def planned(buffers: Sequence[Lifetime], alignment_bytes: int) -> Arena:
    """An arena for ``buffers``, each at a multiple of ``alignment_bytes``.

    The largest first, each at the lowest offset that is free as long as it lives ("greedy by size",
    Pisarchyk and Lee, 2020).
    """

    def room(buffer: Lifetime) -> int:
        return -(-buffer.size_bytes // alignment_bytes) * alignment_bytes

    offsets = [0] * len(buffers)
    placed: list[int] = []
    for number in sorted(range(len(buffers)), key=lambda n: (-buffers[n].size_bytes, n)):
        own = buffers[number]
        taken = sorted((offsets[n], room(buffers[n])) for n in placed if buffers[n].meets(own))
        offset = 0
        for begin, size in taken:
            if begin - offset >= room(own):
                break
            offset = max(offset, begin + size)
        offsets[number] = offset
        placed.append(number)
    ends = [offset + room(buffer) for offset, buffer in zip(offsets, buffers, strict=True)]
    steps = {buffer.first for buffer in buffers}
    alive = [sum(room(b) for b in buffers if b.first <= step <= b.last) for step in steps]
    return Arena(tuple(offsets), max(ends, default=0), max(alive, default=0))
