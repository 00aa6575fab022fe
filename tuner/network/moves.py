"""Layers that move elements and change none."""

from __future__ import annotations

from tuner.network.graph import Graph, Node

VIEWS = ("transpose", "slice")
"""Operators whose result has its elements in the memory of the operand."""
_BYTES = ("uint8", "int8")


def moves_only(graph: Graph, node: Node) -> bool:
    """Whether ``node`` moves elements and changes none: a transposition, a slice, or a
    concatenation of tensors of one scale."""
    if node.operator != "concat":
        return node.operator in VIEWS
    tensors = [graph.tensors[name] for name in (*node.inputs, *node.outputs)]
    return len({(tensor.dtype, tensor.quantization) for tensor in tensors}) == 1


def moves_on_dsp(graph: Graph, node: Node) -> bool:
    """Whether ``node`` moves bytes and does nothing else, not backwards."""
    backwards = any(step < 1 for step in node.attributes.get("steps", ()))
    is_bytes = graph.tensors[node.outputs[0]].dtype in _BYTES
    return is_bytes and not backwards and moves_only(graph, node)
