"""Layers that only move elements, as storages of one memory: what they make is where their operand
is, seen otherwise, or gets its operands in parts."""

from __future__ import annotations

from dataclasses import replace

from tuner.network.graph import Node, Shape
from tuner.network.running.storage import Storage


def view(node: Node, given: Storage) -> Storage:
    """The result of ``node``, one of :data:`tuner.network.moves.VIEWS`, whose operand is in
    ``given``, not in blocks. Dimensions of ``given`` beyond the operand's, of bytes, stay."""
    attributes, rank = node.attributes, len(given.shape)
    if node.operator == "transpose":
        order = (*attributes["order"], *range(len(attributes["order"]), rank))
        shape, strides = (
            tuple(own[axis] for axis in order) for own in (given.shape, given.strides)
        )
        return replace(given, shape=shape, strides=strides)
    bounds = zip(*(attributes[key] for key in ("starts", "stops", "steps")), strict=True)
    ranges = [range(*slice(*own).indices(n)) for own, n in zip(bounds, given.shape, strict=False)]
    ranges += [range(extent) for extent in given.shape[len(ranges) :]]
    begin = sum(one.start * step for one, step in zip(ranges, given.strides, strict=True))
    strides = tuple(one.step * step for one, step in zip(ranges, given.strides, strict=True))
    shape = tuple(map(len, ranges))
    return _placed(given, shape, strides, given.offset_bytes + begin)


def part(whole: Storage, axis: int, at: int, shape: Shape) -> Storage:
    """The place in ``whole`` of an operand of ``shape`` from index ``at`` of ``axis`` on."""
    return _placed(whole, shape, whole.strides, whole.offset_bytes + at * whole.strides[axis])


def _placed(memory: Storage, shape: Shape, strides: tuple[int, ...], offset_bytes: int) -> Storage:
    kept = tuple(s if extent != 1 else 0 for s, extent in zip(strides, shape, strict=True))
    return replace(memory, shape=shape, strides=kept, offset_bytes=offset_bytes)


def in_order_of(given: Storage, shape: Shape) -> Storage:
    """A dense storage of ``shape`` whose dimensions lie in the order of those of ``given``."""
    order = sorted(range(len(shape)), key=lambda axis: -abs(given.strides[axis]))
    single = [axis for axis in order if not given.strides[axis]]
    return Storage.of(shape, [*single, *(axis for axis in order if axis not in single)])
