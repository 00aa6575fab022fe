"""Reading and combining elements of arrays at many places at once.

Most places are regular: along each dimension they follow one loop, and no two follow the same. Then
whole slices are taken, and what other loops add is summed up first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def gathered(values: Array, places: Sequence[Array]) -> Array:
    """``values`` at ``places``, an array for each dimension with an axis for each loop."""
    axes = _axes(places)
    if axes is None:
        return np.asarray(values[tuple(places)])
    rank = max((place.ndim for place in places), default=0)
    cut, shape = values, [1] * rank
    for dimension, (place, axis) in enumerate(zip(places, axes, strict=True)):
        flat = place.reshape(-1)
        cut = _taken(cut, flat, dimension)
        if axis is not None:
            shape[axis] = flat.size
    still = [n for n, axis in enumerate(axes) if axis is None]
    moved = sorted((axis, n) for n, axis in enumerate(axes) if axis is not None)
    return cut.transpose([*still, *(n for _, n in moved)]).reshape(shape)


def combined(by: np.ufunc, target: Array, places: Sequence[Array], terms: Array) -> bool:
    """Combines ``terms`` with what is in ``target`` at ``places``; false, and nothing is done, if
    these are not regular."""
    axes = _axes(places)
    if axes is None or not all(_increases(place) for place in places):
        return False
    along = [axis for axis in axes if axis is not None]
    gone = tuple(axis for axis in range(terms.ndim) if axis not in along)
    total = by.reduce(terms, axis=gone, dtype=target.dtype)
    left = sorted(along)
    total = total.transpose([left.index(axis) for axis in along])
    at = np.ix_(*(place.reshape(-1) for place in places))
    target[at] = by(target[at], total.reshape(target[at].shape))
    return True


def _axes(places: Sequence[Array]) -> list[int | None] | None:
    """The loop that each place follows, or none; ``None`` if they are not regular."""
    found: list[int | None] = []
    for place in places:
        moving = [axis for axis, extent in enumerate(place.shape) if extent > 1]
        if len(moving) > 1 or (moving and moving[0] in found):
            return None
        found.append(moving[0] if moving else None)
    return found


def _increases(place: Array) -> bool:
    return place.size < 2 or bool((np.diff(place.reshape(-1)) > 0).all())


def _taken(values: Array, flat: Array, dimension: int) -> Array:
    """``values`` at the indices ``flat`` along a dimension: a view if they are in equal steps."""
    first, last, step = int(flat[0]), int(flat[-1]), 1
    if flat.size > 1:
        step = int(flat[1] - flat[0])
        if step <= 0 or not (np.diff(flat) == step).all():
            return values.take(flat, axis=dimension)
    return values[(slice(None),) * dimension + (slice(first, last + 1, step),)]
