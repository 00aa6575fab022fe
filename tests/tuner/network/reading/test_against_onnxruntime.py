"""Networks in both forms of onnxruntime's quantizer compute what onnxruntime computes.

Node by node, each from onnxruntime's own operands. In QOperator form sums of integers are the same
bit for bit. In QDQ form onnxruntime leaves some nodes in real numbers, where one element in
hundreds rounds the other way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from tests.rig.models import branches, published, quantized
from tests.rig.models.comparison import INTEGER_EXACT, differences, graph_of
from tests.rig.models.quantized import FORMS, Quantizing
from tuner.network import Graph, reference
from tuner.network.layers import layers
from tuner.network.reading.model_file import run_host_node
from tuner.problem.workload import Workload
from tuner.workload_sets import find_set

ALL = [
    Quantizing("QDQ"),
    Quantizing("QOperator"),
    Quantizing("QDQ", activations="QInt8", per_channel=True),
    Quantizing("QDQ", weights="QUInt8"),
    Quantizing("QOperator", per_channel=True),
]
NETWORKS = {
    "MobileNetV2": lambda: published.mobilenet_v2(64, 10),
    "ResNet-50": lambda: published.resnet50(32, 10),
    "U-Net": lambda: published.u_net(32, 8),
    "transformer": published.transformer_block,
}


def label(how: Quantizing) -> str:
    per = "channel" if how.per_channel else "tensor"
    return f"{how.form}-{how.activations}-{how.weights}-{per}"


def require_alike(model, how: Quantizing) -> tuple[Graph, int]:
    """The graph of ``model``, and how many results were compared."""
    graph, compared, found = differences(model, how)
    assert compared > 0
    assert [one for one in found if one.steps > 1] == []
    exact = [one for one in found if one.operator in INTEGER_EXACT]
    if how.form == "QOperator":
        assert exact == []
    assert [one for one in exact if one.elements > max(1, one.of // 200)] == []
    return graph, compared


@pytest.mark.parametrize("form", FORMS)
def test_a_graph_with_branches(form: str) -> None:
    graph, _ = require_alike(branches.branching(2), Quantizing(form))
    assert not any(node.reason for node in graph.nodes)


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: branches.branching(5), id="branches"),
        pytest.param(
            lambda: published.mobilenet_v2(64, 10), id="MobileNetV2", marks=pytest.mark.slow
        ),
    ],
)
def test_models_with_channels_last_are_the_same_as_one(build) -> None:
    """As onnxruntime saves them, with its own integer operators: bit for bit from end to end."""
    model = build()
    made = quantized.optimized(quantized.quantized(model, Quantizing()))
    graph, inputs = graph_of(made), quantized.inputs_of(model, 7)
    assert {node.attributes["layout"] for node in graph.nodes if node.operator == "conv"} == {
        "nhwc"
    }
    results = reference.run(graph, inputs, host=run_host_node)
    for result, wanted in zip(results.values(), quantized.run(made, inputs), strict=True):
        assert wanted.std() > 0
        assert np.array_equal(result, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(branches.COUNT))
def test_every_graph_with_branches(seed: int) -> None:
    model = branches.branching(seed)
    signed, per_channel = seed % 2 == 0, seed // 2 % 2 == 1
    ways = [
        Quantizing("QDQ", "QInt8" if signed else "QUInt8", per_channel=per_channel),
        Quantizing("QOperator", per_channel=per_channel),
    ]
    for how in ways:
        graph, _ = require_alike(model, how)
        assert not any(node.reason for node in graph.nodes), label(how)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "how"),
    [
        pytest.param(network, how, id=f"{network}-{label(how)}")
        for network in NETWORKS
        for how in (ALL[:2] if network == "ResNet-50" else ALL)  # it takes 15 s each
    ],
)
def test_published_networks(network: str, how: Quantizing) -> None:
    graph, compared = require_alike(NETWORKS[network](), how)
    assert compared >= len(graph.nodes) // 2
    stays = {node.source for node in graph.nodes if node.reason}
    assert stays <= {"LayerNormalization"}


def shapes(workloads: Iterable[Workload]) -> Counter[object]:
    """Kernels with the parameters that are shapes: those that data leaves alone. Layers have a
    kernel of their own, whose name begins with q, beside that of the sets."""
    kept = {"height", "width", "channels", "channels_in", "channels_out", "size", "stride"}
    return Counter(
        (
            workload.kernel.removeprefix("q"),
            frozenset((k, v) for k, v in workload.params.items() if k in kept),
        )
        for workload in workloads
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "layer_table"),
    [
        (published.mobilenet_v2, "mobilenet_v2_int8"),
        (published.resnet50, "resnet50_int8"),
    ],
)
def test_full_size_networks_end_to_end(network, layer_table: str) -> None:
    """At 224x224, as one: the outputs are onnxruntime's, except where an addition rounds the other
    way, which later layers carry on. The workloads are those of the set written by hand, except
    the mean of the last image, which is a product with ones here."""
    model = network()
    made = quantized.quantized(model, Quantizing("QOperator"), samples=1)
    graph, inputs = graph_of(made), quantized.inputs_of(model, 7)
    (wanted,) = quantized.run(made, inputs)
    (result,) = reference.run(graph, inputs, host=run_host_node).values()
    (step,) = graph.tensors[graph.nodes[-1].inputs[0]].quantization.scale
    assert wanted.std() > 5 * step, "the outputs must tell networks apart"
    assert np.abs(result - wanted).max() <= 4 * step
    assert np.argmax(result) == np.argmax(wanted)

    members = find_set(layer_table).members
    by_hand = [member.workload for member in members for _ in member.layers]
    (mean,) = (workload for workload in by_hand if workload.kernel == "avg_pool_u8")
    by_hand.remove(mean)
    fits = [(layer.node.operator, layer.fit.workload) for layer in layers(graph)]
    (ones,) = (workload for operator, workload in fits if operator == "average_pool")
    assert ones.params["n"] == mean.params["channels"]
    assert ones.params["k"] == mean.params["size"] ** 2
    others = (workload for operator, workload in fits if operator != "average_pool")
    assert shapes(workload for workload in others if workload) == shapes(by_hand)
