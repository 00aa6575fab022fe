"""Layers that move elements and change none."""

from __future__ import annotations

import numpy as np

from tuner.network.graph import Graph, Node
from tuner.network.reference import nearest_places

VIEWS = ("transpose", "slice")
"""Operators whose result has its elements in the memory of the operand."""
_BYTES = ("uint8", "int8")


def moves_only(graph: Graph, node: Node) -> bool:
    """Whether ``node`` moves elements and changes none: a transposition, a slice, a concatenation
    of tensors of one scale, or a nearest resizing by whole numbers."""
    if node.operator == "resize":
        return repeats(graph, node) is not None
    if node.operator != "concat":
        return node.operator in VIEWS
    tensors = [graph.tensors[name] for name in (*node.inputs, *node.outputs)]
    return len({(tensor.dtype, tensor.quantization) for tensor in tensors}) == 1


def moves_on_dsp(graph: Graph, node: Node) -> bool:
    """Whether ``node`` moves bytes and does nothing else, not backwards."""
    backwards = any(step < 1 for step in node.attributes.get("steps", ()))
    is_bytes = graph.tensors[node.outputs[0]].dtype in _BYTES
    return is_bytes and not backwards and moves_only(graph, node)


def repeats(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """How many times each index of each dimension follows itself in the result of a nearest
    resizing; ``None`` if one does more often than another, or the resizing is linear."""
    if node.attributes["mode"] != "nearest":
        return None
    found = []
    for axis, extent in enumerate(graph.tensors[node.inputs[0]].shape):
        size = node.attributes["shape"][axis]
        times = size // extent
        if size != extent:
            wanted = np.arange(size) // max(1, times)
            if not np.array_equal(nearest_places(node.attributes, axis, extent), wanted):
                return None
        found.append(times)
    return tuple(found)
