"""Layers that only move elements, as storages of one memory: their result is the memory of the
operand, seen otherwise, or gets copies of its operands in parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from tuner.network.graph import Graph, Node, Shape
from tuner.network.moves import repeats
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


def copies(graph: Graph, node: Node, whole: Storage) -> Iterator[tuple[str, Storage]]:
    """The operand of each copy of which the result of ``node``, a concatenation or a nearest
    resizing, consists, and its place in ``whole``, the storage of the result. Dimensions of
    ``whole`` beyond the result's, of bytes, stay."""
    inner = whole.shape[len(graph.tensors[node.outputs[0]].shape) :]
    names = [name for name in node.inputs if name]
    shapes = [(*graph.tensors[name].shape, *inner) for name in names]
    if node.operator == "concat":
        axis, at = node.attributes["axis"], 0
        for name, shape in zip(names, shapes, strict=True):
            begin = whole.offset_bytes + at * whole.strides[axis]
            yield name, _placed(whole, shape, whole.strides, begin)
            at += shape[axis]
        return
    times = repeats(graph, node)
    assert times is not None  # noqa: S101 - moves_only says so
    times += (1,) * len(inner)
    strides = tuple(step * n for step, n in zip(whole.strides, times, strict=True))
    for offsets in product(*map(range, times)):
        begin = sum(n * step for n, step in zip(offsets, whole.strides, strict=True))
        yield names[0], _placed(whole, shapes[0], strides, whole.offset_bytes + begin)


def _placed(memory: Storage, shape: Shape, strides: tuple[int, ...], offset_bytes: int) -> Storage:
    kept = tuple(s if extent != 1 else 0 for s, extent in zip(strides, shape, strict=True))
    return replace(memory, shape=shape, strides=kept, offset_bytes=offset_bytes)


def in_order_of(given: Storage, shape: Shape) -> Storage:
    """A dense storage of ``shape`` whose dimensions lie in the order of those of ``given``."""
    order = sorted(range(len(shape)), key=lambda axis: -abs(given.strides[axis]))
    single = [axis for axis in order if not given.strides[axis]]
    return Storage.of(shape, [*single, *(axis for axis in order if axis not in single)])
