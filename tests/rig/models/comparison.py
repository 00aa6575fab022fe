"""A network's nodes, one by one, beside onnxruntime's: each computed from what onnxruntime made."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from tests.rig.models import quantized
from tests.rig.models.quantized import Quantizing
from tuner.network import HOST, Graph, reference
from tuner.network.reading import model_file
from tuner.network.reading.model_file import run_host_node

INTEGER_EXACT = frozenset(
    {"conv", "matmul", "mul", "max_pool", "transpose", "reshape", "pad", "slice"}
)
"""Operators whose results are sums or copies of integers, requantized once at most. Means are not:
onnxruntime takes them in real numbers, and sums over 6 pixels often lie halfway."""


@dataclass(frozen=True)
class Difference:
    """The most steps that a node's result and onnxruntime's are apart, and for how many elements
    of all."""

    operator: str
    node: str
    steps: int
    elements: int
    of: int


def graph_of(model: onnx.ModelProto) -> Graph:
    """``model`` read from a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        return model_file.read(path)


def differences(
    model: onnx.ModelProto, how: Quantizing, seed: int = 7
) -> tuple[Graph, int, list[Difference]]:
    """The graph of ``model`` quantized ``how``, the number of nodes whose results onnxruntime
    shows, and the differences of these."""
    made = quantized.quantized(model, how)
    graph = graph_of(made)
    inputs = quantized.inputs_of(model, seed)
    shown = _with_outputs(made, graph)
    names = [value.name for value in shown.graph.output]
    theirs = dict(zip(names, quantized.run(shown, inputs), strict=True))
    values = {name: graph.data[t.data] for name, t in graph.tensors.items() if t.data} | inputs
    found, compared = [], 0
    for node in graph.nodes:
        operands = [values[name] for name in node.inputs if name]
        if node.operator == HOST:
            results = run_host_node(graph, node, operands)
        else:
            results = [reference.computed(graph, node, operands)]
        for name, mine in zip(node.outputs, results, strict=True):
            values[name] = theirs.get(name, mine)
            if name not in theirs or graph.tensors[name].quantization is None:
                continue
            compared += 1
            apart = np.abs(mine.astype(np.int64) - theirs[name])
            if apart.any():
                count = int(np.count_nonzero(apart))
                found.append(
                    Difference(node.operator, node.name, int(apart.max()), count, apart.size)
                )
    return graph, compared, found


def _with_outputs(model: onnx.ModelProto, graph: Graph) -> onnx.ModelProto:
    """``model`` with all quantized results as outputs."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    kept = {value.name for value in model.graph.output}
    for node in model.graph.node:
        name = node.output[0]
        tensor = graph.tensors.get(name)
        is_integer = tensor is not None and tensor.dtype in ("uint8", "int8")
        if name not in kept and is_integer and node.op_type.startswith(("Q", "Resize")):
            shown.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    return shown
