"""TFLite models: the graph they were written from, and the results of TFLite's interpreter.

The definition of a network requantizes in float32 with halves to even; TFLite does so in fixed
point, with halves away from zero, so that single elements are a step apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.rig.models.channels_last import NETWORKS
from tests.rig.models.twins import as_tflite
from tests.tuner.network.reading.small_graphs import inputs_of
from tuner.network import HOST, Graph, Quantization, reference
from tuner.network.graph import Array
from tuner.network.layers import layers
from tuner.network.reading import model_file
from tuner.network.reading.tflite_file import TfliteModel, TfliteOperator, TfliteTensor
from tuner.network.reading.tflite_writing import written


def read(content: bytes) -> Graph:
    return model_file.read_content(content, "model.tflite", {})


def interpreted(content: bytes, inputs: Sequence[Array]) -> dict[str, Array]:
    """All tensors of a model by name, by TFLite's interpreter with its own kernels."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    made = Interpreter(
        model_content=content,
        num_threads=1,
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    made.allocate_tensors()
    for place, array in zip(made.get_input_details(), inputs, strict=True):
        made.set_tensor(place["index"], array)
    made.invoke()
    return {held["name"]: made.get_tensor(held["index"]) for held in made.get_tensor_details()}


def steps_apart(content: bytes, graph: Graph, inputs: Sequence[Array]) -> dict[str, int]:
    """By node, how far its results for TFLite's operands are from TFLite's results."""
    theirs = interpreted(content, inputs)
    values = {name: graph.data[held.data] for name, held in graph.tensors.items() if held.data}
    values |= dict(zip(graph.inputs, inputs, strict=True))
    found = {}
    for node in graph.nodes:
        operands = [values[name] for name in node.inputs if name]
        made = reference.outputs_of(graph, node, operands, model_file.run_host_node)
        for name, mine in zip(node.outputs, made, strict=True):
            values[name] = theirs.get(name, mine)
            if name in theirs:
                assert mine.shape == theirs[name].shape
                apart = np.abs(mine.astype(np.float64) - theirs[name])
                found[node.name] = int(np.ceil(apart.max(initial=0)))
    return found


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_network_is_read_as_the_graph_it_was_written_from(
    network: str, per_channel: bool
) -> None:
    graph = NETWORKS[network](per_channel=per_channel)
    found = read(as_tflite(graph))
    made = {node.outputs[0]: found.signature(node) for node in found.nodes}
    assert made == {node.outputs[0]: graph.signature(node) for node in graph.nodes}
    assert [layer.fit.workload for layer in layers(found)] == [
        layer.fit.workload for layer in layers(graph)
    ]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    "how",
    [{"dtype": "int8"}, {"dtype": "int8", "per_channel": True}, {"dtype": "uint8"}],
    ids=["int8", "int8 by channel", "uint8"],
)
def test_a_network_computes_what_tflite_computes(network: str, how: dict[str, Any]) -> None:
    made = NETWORKS[network](clips=True, **how)
    content = as_tflite(made)
    graph = read(content)
    assert any("low" in node.attributes for node in graph.nodes)
    apart = steps_apart(content, graph, list(inputs_of(made).values()))
    assert len(apart) == len(graph.nodes)
    assert max(apart.values()) <= 1, apart


S, Z = 0.05, -7
"""Scale and zero point of single operators' operands."""


def single(
    operator: str,
    inputs: Sequence[Sequence[int] | Array],
    made: Sequence[Sequence[int]],
    kind: str = "",
    scale: float = S,
    zero: int = Z,
    **options: Any,
) -> bytes:
    """A model of one operator: inputs are shapes of tensors, or constants of whole numbers."""
    quantization = Quantization.of(S, Z)
    tensors, given = [], []
    for entry in inputs:
        if isinstance(entry, np.ndarray):
            held = quantization if entry.dtype == np.int8 else None
            name = f"c{len(tensors)}"
            tensors.append(TfliteTensor(name, entry.shape, entry.dtype.name, held, entry))
        else:
            given.append(len(tensors))
            tensors.append(TfliteTensor(f"x{len(tensors)}", tuple(entry), "int8", quantization))
    outputs = tuple(range(len(tensors), len(tensors) + len(made)))
    result = Quantization.of(scale, zero)
    tensors += [TfliteTensor(f"y{n}", tuple(shape), "int8", result) for n, shape in enumerate(made)]
    one = TfliteOperator(operator, tuple(range(len(inputs))), outputs, kind, options)
    return written(TfliteModel(tuple(tensors), (one,), tuple(given), outputs))


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def masks(**given: int) -> dict[str, int]:
    names = ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
    return {name: given.get(name, 0) for name in names}


IMAGE = (1, 6, 5, 8)
ENDED = {"scale": 1 / 256, "zero": -128}
WIDTHS = np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32)
SINGLE: dict[str, bytes] = {
    "mean without its axes": single("MEAN", [IMAGE, whole(1, 2)], [(1, 8)], "ReducerOptions", 0.02),
    "add of a constant": single(
        "ADD", [IMAGE, np.arange(8, dtype=np.int8)], [IMAGE], "AddOptions", 0.06
    ),
    "pad with a value": single(
        "PADV2", [IMAGE, WIDTHS, np.array([5], np.int8)], [(1, 9, 6, 8)], "PadV2Options"
    ),
    "strided slice that leaves an axis out": single(
        "STRIDED_SLICE",
        [IMAGE, whole(0, -2), whole(1, 6), whole(1, 1)],
        [(1, 5, 8)],
        "StridedSliceOptions",
        **masks(ShrinkAxisMask=2),
    ),
    "split into sizes": single(
        "SPLIT_V",
        [IMAGE, whole(5, -1), whole(-1)],
        [(1, 6, 5, 5), (1, 6, 5, 3)],
        "SplitVOptions",
        NumSplits=2,
    ),
    "transpose": single(
        "TRANSPOSE", [IMAGE, whole(0, 3, 1, 2)], [(1, 8, 6, 5)], "TransposeOptions"
    ),
    "nearest to the corners": single(
        "RESIZE_NEAREST_NEIGHBOR",
        [IMAGE, whole(9, 7)],
        [(1, 9, 7, 8)],
        "ResizeNearestNeighborOptions",
        AlignCorners=True,
    ),
    "nearest to centres": single(
        "RESIZE_NEAREST_NEIGHBOR",
        [IMAGE, whole(9, 13)],
        [(1, 9, 13, 8)],
        "ResizeNearestNeighborOptions",
        HalfPixelCenters=True,
    ),
    "linear": single(
        "RESIZE_BILINEAR", [IMAGE, whole(13, 10)], [(1, 13, 10, 8)], "ResizeBilinearOptions"
    ),
    "product of activations": single(
        "BATCH_MATMUL", [(2, 4, 6), (2, 5, 6)], [(2, 4, 5)], "BatchMatMulOptions", 0.6, AdjY=True
    ),
    "logistic": single("LOGISTIC", [IMAGE], [IMAGE], **ENDED),
    "elu": single("ELU", [IMAGE], [IMAGE]),
    "another scale": single("QUANTIZE", [IMAGE], [IMAGE], "QuantizeOptions", 0.08, 3),
}


@pytest.mark.parametrize("name", SINGLE)
def test_an_operator_computes_what_tflite_computes(name: str) -> None:
    content = SINGLE[name]
    graph = read(content)
    assert not any(node.reason for node in graph.nodes)
    apart = steps_apart(content, graph, list(inputs_of(graph).values()))
    assert apart
    assert max(apart.values()) <= 1, apart


def test_what_has_no_integer_form_stays_on_the_host_as_it_is() -> None:
    content = single("SUB", [IMAGE, IMAGE], [IMAGE], "SubOptions", 0.1)
    graph = read(content)
    (node,) = graph.nodes
    assert (node.operator, node.source) == (HOST, "SUB")
    assert "SUB" in node.reason
    assert graph.tensors["y0"].quantization == Quantization.of(0.1, Z)
    inputs = list(inputs_of(graph).values())
    assert steps_apart(content, graph, inputs) == {"SUB 0": 0}
    assert model_file.suffix_of_host_node(graph.constant(node.inputs[-1]).tobytes()) == ".tflite"
