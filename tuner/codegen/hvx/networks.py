"""Bytes that come from windows of memory to lanes, by places that are known when code is written.

``vdelta`` and ``vrdelta`` are networks: at each step a byte stays in its lane, or comes from the
one whose number differs in one bit. Which bytes of a window they bring together is found by routing
one after the other; the rest comes from another window.

Source: Hexagon V66 HVX Programmer's Reference Manual, 80-N2040-44, "Vector delta".
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tuner.program.meanings import Array


class Route(NamedTuple):
    """What brings bytes of a window to their lanes: ``ways`` of the network, none where all stay in
    their lanes; and the lanes that come so."""

    ways: tuple[int, ...]
    lanes: tuple[int, ...]


@lru_cache(maxsize=4096)
def routed(wanted: tuple[int, ...], size: int, *, is_upwards: bool) -> Route:
    """Brings to each lane the byte of a window that is ``wanted`` there, if one is (not -1), as far
    as those of earlier lanes allow: all ``size`` bytes of an element, or none. ``vdelta`` goes from
    the highest bit of a lane's number to the lowest, ``vrdelta`` (``is_upwards``) the other way."""
    lanes, bits = len(wanted), [1 << n for n in range(len(wanted).bit_length() - 1)]
    steps = bits if is_upwards else bits[::-1]
    held = [[-1] * lanes for _ in steps]
    ways, taken = [0] * lanes, list[int]()
    for first in range(0, lanes, size):
        paths = list[list[int]]()
        for lane in range(first, first + size):
            place, path = wanted[lane], list[int]()
            for bit in steps:
                place = place & ~bit | lane & bit
                path.append(place)
            paths.append(path)
        own = wanted[first : first + size]
        if -1 in own or any(
            held[n][place] not in (-1, source)
            for path, source in zip(paths, own, strict=True)
            for n, place in enumerate(path)
        ):
            continue
        for path, source in zip(paths, own, strict=True):
            place = source
            for n, (bit, to) in enumerate(zip(steps, path, strict=True)):
                held[n][to] = source
                ways[to] |= (place ^ to) & bit
                place = to
        taken += range(first, first + size)
    return Route(tuple(ways) if any(ways) else (), tuple(taken))


class Piece(NamedTuple):
    """A window at ``start``, in bytes from where the row's elements are, and what it brings."""

    start: int
    route: Route


@lru_cache(maxsize=64)
def dealt(lanes: int, count: int) -> tuple[Array, ...]:
    """The elements of a block that each of ``count`` vectors has: even ones before odd ones, and
    each of these likewise."""
    found = [np.arange(lanes)]
    while len(found) < count:
        found = [half for one in found for half in (one[::2], one[1::2])]
    return tuple(found)


MOST_PIECES = 8
"""Windows that one vector comes from."""


def pieces_of(
    elements: tuple[int, ...], size: int, whole: int, ends: tuple[int, int], *, is_upwards: bool
) -> list[Piece]:
    """Windows of ``whole`` bytes that bring ``elements`` of ``size`` bytes to their lanes, where
    one is wanted (not -1). They begin between ``ends``. More than ``MOST_PIECES`` are too many."""
    first = np.repeat(np.array(elements), size)
    wanted = np.where(first < 0, -1, first * size + np.tile(np.arange(size), len(elements)))
    found = list[Piece]()
    while len(found) <= MOST_PIECES and (not found or (wanted >= 0).any()):
        asked = np.flatnonzero(wanted >= 0)
        own = wanted[asked] if asked.size else np.array([ends[0]])
        # From the first wanted byte on, up to the last, or so that one stays in its lane.
        starts = {int(own.min()), int(own.max()) + 1 - whole, int(own[0] - asked[:1].sum())}
        some = list[Piece]()
        for start in sorted({max(ends[0], min(one, ends[1])) for one in starts}):
            inside = (wanted >= start) & (wanted < start + whole)
            within = tuple(map(int, np.where(inside, wanted - start, -1)))
            some.append(Piece(start, routed(within, size, is_upwards=is_upwards)))
        found.append(max(some, key=lambda one: (len(one.route.lanes), not one.route.ways)))
        wanted[list(found[-1].route.lanes)] = -1
    return found
