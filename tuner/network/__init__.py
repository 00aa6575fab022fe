"""Whole networks: read, planned, run and shipped. A model is a :class:`Graph` of integer operators.

- ``operators`` knows shapes and work, ``reference`` computes the exact outputs in NumPy
  (``fixed_point`` as HVX requantizes). ``layers`` says what each is worth and which kernel does it.
- ``reading`` makes the graph of a file, ``planning`` says what runs where and when, ``running``
  runs it, ``shipping`` makes what a program links.
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
