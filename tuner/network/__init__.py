"""A model as a graph: reads quantized networks, says what each layer is worth and which kernel does
it, and runs them exactly in NumPy.
"""

from __future__ import annotations

from tuner.network.graph import Graph, Node, Quantization, Tensor, Work, checked
from tuner.network.operators import HOST, OPERATORS

__all__ = [
    "HOST",
    "OPERATORS",
    "Graph",
    "Node",
    "Quantization",
    "Tensor",
    "Work",
    "checked",
]
