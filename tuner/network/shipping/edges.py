"""The part of a network that a bundle holds: from its first quantized tensors to its last."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.network.graph import Graph, Node, checked


@dataclass(frozen=True)
class Edges:
    """The layers left to the caller: those that quantize an input of the network, and those that
    make real numbers of what the bundle returns."""

    quantize: tuple[Node, ...]
    dequantize: tuple[Node, ...]


def within_edges(graph: Graph) -> tuple[Graph, Edges]:
    """``graph`` without the layers at its edges that only change between real numbers and integers:
    an input that nothing but one ``quantize`` reads, an output that a ``dequantize`` makes."""
    readers: dict[str, list[Node]] = {name: [] for name in graph.tensors}
    for node in graph.nodes:
        for name in filter(None, node.inputs):
            readers[name].append(node)
    makers = {name: node for node in graph.nodes for name in node.outputs}
    first = {
        name: own[0]
        for name in graph.inputs
        if len(own := readers[name]) == 1
        and own[0].operator == "quantize"
        and name not in graph.outputs
    }
    last = {
        name: makers[name]
        for name in graph.outputs
        if name in makers and makers[name].operator == "dequantize" and not readers[name]
    }
    removed = [*first.values(), *last.values()]
    inner = checked(
        graph.name,
        graph.tensors.values(),
        [node for node in graph.nodes if not any(node is other for other in removed)],
        [first[name].outputs[0] if name in first else name for name in graph.inputs],
        list(
            dict.fromkeys(last[name].inputs[0] if name in last else name for name in graph.outputs)
        ),
        graph.data,
    )
    return inner, Edges(tuple(first.values()), tuple(last.values()))
