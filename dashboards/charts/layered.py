"""Drawings of directed acyclic graphs in layers, from top to bottom.

After Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures" (1981): a box lies below all that lead to it, long edges pass rows through points of
their own, boxes of a row are ordered by the mean of their neighbours (barycenters), and x is as
near to it as the order allows, which is an isotonic regression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

BOX_WIDTH, BOX_HEIGHT = 168.0, 34.0
GAP_ACROSS, GAP_DOWN = 22.0, 24.0
MARGIN = 8.0
_POINT_WIDTH = 2.0
_SWEEPS = 4


@dataclass(frozen=True)
class Place:
    """The upper left corner of a box, in pixels."""

    x: float
    y: float


@dataclass(frozen=True)
class Layout:
    """The places of boxes, in their order, and the ``d`` of each edge's path in SVG, which goes by
    its ends; all within ``width`` by ``height`` pixels."""

    width: float
    height: float
    places: tuple[Place, ...]
    edges: Mapping[tuple[int, int], str]


_Key = tuple[int, int, int]
"""A box, twice, and its row; or the two ends of an edge, and a row that it passes."""
_Near = Mapping[_Key, Sequence[_Key]]


def layout(reads: Sequence[Sequence[int]]) -> Layout:
    """The layout of boxes, each of which ``reads`` some of those before it."""
    if not reads:
        return Layout(0.0, 0.0, (), {})
    row_of = _rows_of(reads)
    rows: list[list[_Key]] = [[] for _ in range(max(row_of) + 1)]
    for box, row in enumerate(row_of):
        rows[row].append((box, box, row))
    above: dict[_Key, list[_Key]] = {}
    below: dict[_Key, list[_Key]] = {}
    ways = {}
    for box, own in enumerate(reads):
        for source in own:
            between = [(source, box, row) for row in range(row_of[source] + 1, row_of[box])]
            way = [(source, source, row_of[source]), *between, (box, box, row_of[box])]
            ways[source, box] = way
            for key in between:
                rows[key[2]].append(key)
            for upper, lower in pairwise(way):
                above.setdefault(lower, []).append(upper)
                below.setdefault(upper, []).append(lower)
    rows = _ordered(rows, above, below)
    centres = _centres(rows, above, below)
    left = min(centres[row[0]] - _width(row[0]) / 2 for row in rows) - MARGIN
    right = max(centres[row[-1]] + _width(row[-1]) / 2 for row in rows) + MARGIN
    spots = {
        key: (round(centre - left, 1), round(MARGIN + key[2] * (BOX_HEIGHT + GAP_DOWN), 1))
        for key, centre in centres.items()
    }
    boxes = [spots[box, box, row] for box, row in enumerate(row_of)]
    return Layout(
        round(right - left, 1),
        round(boxes[row_of.index(max(row_of))][1] + BOX_HEIGHT + MARGIN, 1),
        tuple(Place(round(x - BOX_WIDTH / 2, 1), y) for x, y in boxes),
        {ends: _path([spots[key] for key in way]) for ends, way in ways.items()},
    )


def _rows_of(reads: Sequence[Sequence[int]]) -> list[int]:
    """The row of each box: below the lowest that it reads."""
    rows: list[int] = []
    for own in reads:
        rows.append(1 + max((rows[source] for source in own), default=-1))
    return rows


def _width(key: _Key) -> float:
    return BOX_WIDTH if key[0] == key[1] else _POINT_WIDTH


def _ordered(rows: Sequence[Sequence[_Key]], above: _Near, below: _Near) -> list[list[_Key]]:
    """The rows, with fewer edges that cross: ordered by the rows above and below in turn."""
    made = [list(row) for row in rows]
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        near = above if downwards else below
        at = {key: place for row in made for place, key in enumerate(row)}
        for row in made if downwards else reversed(made):
            means = {key: _mean([at[one] for one in near.get(key, ())], at[key]) for key in row}
            row.sort(key=means.__getitem__)
            at.update({key: place for place, key in enumerate(row)})
    return made


def _centres(rows: Sequence[Sequence[_Key]], above: _Near, below: _Near) -> dict[_Key, float]:
    """The x of each centre, near those of its neighbours."""
    centres: dict[_Key, float] = {}
    for row in rows:
        wanted = {key: _mean([centres[one] for one in above.get(key, ())], 0.0) for key in row}
        _spread(row, wanted, centres)
    for row in reversed(rows):
        near = {key: [*above.get(key, ()), *below.get(key, ())] for key in row}
        wanted = {key: _mean([centres[one] for one in near[key]], centres[key]) for key in row}
        _spread(row, wanted, centres)
    return centres


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _spread(row: Sequence[_Key], wanted: Mapping[_Key, float], centres: dict[_Key, float]) -> None:
    """Sets ``centres`` of a row, in its order and without overlap, with the least sum of squared
    distances to where they are ``wanted`` (pool adjacent violators)."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (_width(left) + _width(right)) / 2 + GAP_ACROSS)
    pools: list[tuple[float, int]] = []  # the mean of a run of boxes that touch, and their number
    for key, offset in zip(row, offsets, strict=True):
        mean, count = wanted[key] - offset, 1
        while pools and pools[-1][0] > mean:
            before, others = pools.pop()
            mean = (mean * count + before * others) / (count + others)
            count += others
        pools.append((mean, count))
    means = [mean for mean, count in pools for _ in range(count)]
    centres.update(
        {key: mean + offset for key, mean, offset in zip(row, means, offsets, strict=True)}
    )


def _path(spots: Sequence[tuple[float, float]]) -> str:
    """A curve from the lower side of a box, by the points between, to the upper side of another."""
    (x, y), *rest = spots
    path = f"M{x:g} {y + BOX_HEIGHT:g}"
    y += BOX_HEIGHT
    for place, (to_x, to_y) in enumerate(rest, start=1):
        middle = (y + to_y) / 2
        path += f"C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
        if place < len(rest):
            path += f"V{to_y + BOX_HEIGHT:g}"
        x, y = to_x, to_y + BOX_HEIGHT
    return path
