"""Whole networks: read, planned and run. A model is a :class:`Graph` of integer operators.

- Reading: ``onnx_file`` and ``onnx_reader`` make the graph, ``operators`` knows shapes and work,
  ``reference`` computes the exact outputs in NumPy. ``layers`` says what each is worth and which
  kernel does it.
- Planning: ``topology`` has the units, ``costs`` the time of each layer on them, ``tasks`` what
  planners take. ``sequence`` plans for one input (``cut`` where a network is large), ``stream`` for
  many (``simulation`` runs such plans), ``vtcm`` places tensors, ``mesh`` splits layers over equal
  elements. ``solver`` is what they share.
- Running: ``calls`` turns a layer into calls of its kernel, ``execution`` runs one after the other;
  ``steps``, ``offload`` and ``image`` run all as one program for the DSP, which ``predicted`` holds
  against a plan.
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
