"""Reading and combining elements of arrays at many places at once.

Most places are regular: along each dimension they follow one loop, and no two follow the same. Then
whole slices are taken, and what other loops add is summed up first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_EXACT = 1 << 53
"""Below this, doubles hold all integers, and their products of matrices are fast."""


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


def assigned(target: Array, places: Sequence[Array], values: Array, shape: tuple[int, ...]) -> bool:
    """Stores ``values`` at ``places`` of all loops, which are of that ``shape``; false, and nothing
    is done, unless these are regular and in equal steps, and no two are the same."""
    if _axes(places) is None or any(_slice(place.reshape(-1)) is None for place in places):
        return False
    cut = gathered(target, places)  # a view
    if cut.shape != shape:
        return False
    cut[...] = values
    return True


def combined(
    by: np.ufunc,
    target: Array,
    places: Sequence[Array],
    rank: int,
    reduced: Callable[[tuple[int, ...]], Array],
) -> bool:
    """Combines what is in ``target`` at ``places`` with terms that have ``rank`` axes and are
    ``reduced`` along some; false, and nothing is done, if places are not regular."""
    axes = _axes(places)
    if axes is None or not all(_increases(place) for place in places):
        return False
    along = [axis for axis in axes if axis is not None]
    total = reduced(tuple(axis for axis in range(rank) if axis not in along))
    left = sorted(along)
    total = total.transpose([left.index(axis) for axis in along])
    flat = [place.reshape(-1) for place in places]
    slices = [_slice(one) for one in flat]
    at: Any = np.ix_(*flat) if None in slices else tuple(slices)
    target[at] = by(target[at], total.reshape([one.size for one in flat]))
    return True


def summed_products(
    factors: Sequence[Array], shape: Sequence[int], gone: Sequence[int], dtype: np.dtype[Any]
) -> Array:
    """The products of two ``factors``, which broadcast to ``shape``, summed along the axes
    ``gone``, modulo what ``dtype`` holds; without such axes, they have it themselves."""
    rank, left = len(shape), [axis for axis in range(len(shape)) if axis not in gone]
    if all(shape[axis] == 1 for axis in gone):
        return np.broadcast_to(np.multiply(*factors), shape).reshape([shape[axis] for axis in left])
    most = prod(shape[axis] for axis in gone)
    for one in factors:
        most *= max(abs(int(one.min())), abs(int(one.max())))
    operands: list[Any] = []
    used = set[int]()
    for one in factors:
        whole = one.reshape((1,) * (rank - one.ndim) + one.shape)
        axes = [axis for axis in range(rank) if whole.shape[axis] > 1]
        used.update(axes)
        flat = whole.reshape([whole.shape[axis] for axis in axes])
        operands += [flat.astype(np.float64 if most < _EXACT else np.int64), axes]
    total = np.einsum(*operands, [axis for axis in left if axis in used], optimize=True)
    total = total * prod(shape[axis] for axis in gone if axis not in used)
    total = total.reshape([shape[axis] if axis in used else 1 for axis in left])
    made = total.astype(np.int64).astype(dtype)
    return np.broadcast_to(made, [shape[axis] for axis in left])


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
    at = _slice(flat)
    if at is None:
        return values.take(flat, axis=dimension)
    return values[(slice(None),) * dimension + (at,)]


def _slice(flat: Array) -> slice | None:
    """The indices ``flat``, if they are in equal steps."""
    first, last, step = int(flat[0]), int(flat[-1]), 1
    if flat.size > 1:
        step = int(flat[1] - flat[0])
        if step <= 0 or not (np.diff(flat) == step).all():
            return None
    return slice(first, last + 1, step)
