"""How far apart configs are in each knob, for all pairs of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tuner.search.samplers.points import INACTIVE, Rows
from tuner.space import Space

Floats = NDArray[np.float64]
Features = NDArray[np.float32]
Indices = NDArray[np.intp]

_MAIN_DECAY = 2.0
"""By how much a knob's own term falls from one end of the knob to the other, a logarithm."""
_STEP = 0.1
"""Of the distance of an ordered knob, the share for being different at all: a size that divides
the extent and one that does not lie side by side."""


@dataclass(frozen=True)
class Pairs:
    """What all pairs of some configs have in common, each pair once.

    ``later`` and ``earlier`` are the rows of a pair, shape (pairs,): the lower triangle of the
    matrix of all rows with all. ``distances`` and ``mains`` have shape (knobs, pairs): the squared
    distance in each knob, and the knob's own term of the covariance.
    """

    rows: int
    later: Indices
    earlier: Indices
    distances: Floats
    mains: Floats


@lru_cache(maxsize=256)
def _lower_triangle(rows: int) -> tuple[Indices, Indices]:
    return np.tril_indices(rows, -1)


class Metric:
    """Squared distances of configs in each knob, as a product of feature vectors.

    A row becomes one-hot features; the weighted distance of two rows is then a bilinear form of
    them, which BLAS does for all pairs at once.
    """

    def __init__(self, space: Space) -> None:
        self._sizes = np.array([len(knob.choices) + 1 for knob in space.knobs], np.intp)
        self._starts = np.cumsum([0, *self._sizes])
        self._blocks = [_distances(len(k.choices), ordered=k.ordered) for k in space.knobs]
        self._mains = [np.asarray(np.exp(-_MAIN_DECAY * block)) for block in self._blocks]
        self._tables = [
            np.concatenate([block.ravel() for block in blocks])
            for blocks in (self._blocks, self._mains)
        ]
        self._tables_starts = np.cumsum([0, *(self._sizes**2)])[:-1]

    def features(self, rows: Rows) -> Features:
        """One-hot features of each row."""
        found = np.zeros((len(rows), self._starts[-1]), np.float32)
        np.put_along_axis(found, self._places(rows) + self._starts[:-1], 1.0, axis=1)
        return found

    def _places(self, rows: Rows) -> Indices:
        """Where the choices are in the knobs' blocks; an inactive knob has the last place."""
        return np.where(rows == INACTIVE, self._sizes - 1, rows).astype(np.intp)

    def form(self, weights: Floats) -> Features:
        """The bilinear form for these weights, one a knob."""
        return self._form(weights, self._blocks)

    def main_form(self, shares: Floats) -> Features:
        """The bilinear form of the sum of the knobs' own terms, each with its share."""
        return self._form(shares, self._mains)

    def _form(self, factors: Floats, blocks: Sequence[Floats]) -> Features:
        form = np.zeros((self._starts[-1], self._starts[-1]), np.float32)
        for block, start, size, factor in zip(
            blocks, self._starts, self._sizes, factors, strict=False
        ):
            form[start : start + size, start : start + size] = factor * block
        return form

    def pairs(self, rows: Rows) -> Pairs:
        """All pairs of rows."""
        later, earlier = _lower_triangle(len(rows))
        places = self._places(rows).T
        starts = (places * self._sizes[:, None] + self._tables_starts[:, None])[:, later]
        entries = starts + places[:, earlier]
        distances, mains = (table[entries] for table in self._tables)
        return Pairs(len(rows), later, earlier, distances, mains)


def _distances(choices: int, *, ordered: bool) -> Floats:
    """Squared distances between the choices of a knob; the last row is for "inactive"."""
    rank = np.arange(choices) / max(1, choices - 1)
    if ordered and choices > 2:
        near = (rank[:, None] - rank[None, :]) ** 2 * (1 - _STEP) + _STEP * (1 - np.eye(choices))
    else:
        near = 1 - np.eye(choices)
    block = np.ones((choices + 1, choices + 1))
    block[:choices, :choices] = near
    block[choices, choices] = 0.0
    return block
