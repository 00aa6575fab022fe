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

NETWORKS = [
    ("MobileNetV2", lambda: published.mobilenet_v2(32, 10), Quantizing("QDQ", per_channel=True)),
    ("U-Net", lambda: published.u_net(32, 8), Quantizing("QOperator")),
    ("transformer", published.transformer_block, Quantizing("QDQ", weights="QUInt8")),
]


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


def test_models_with_channels_last_are_the_same_as_one() -> None:
    """As onnxruntime saves them, with its own integer operators: bit for bit from end to end."""
    model = branches.branching(5)
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
@pytest.mark.parametrize(("build", "how"), [n[1:] for n in NETWORKS], ids=[n[0] for n in NETWORKS])
def test_published_networks(build, how: Quantizing) -> None:
    graph, compared = require_alike(build(), how)
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


@pytest.mark.nightly
def test_a_full_size_network_end_to_end() -> None:
    """At 224x224, as one: the outputs are onnxruntime's, except where an addition rounds the other
    way, which later layers carry on. The workloads are those of the set written by hand, except
    the mean of the last image, which is a product with ones here."""
    model = published.mobilenet_v2()
    made = quantized.quantized(model, Quantizing("QOperator"), samples=1)
    graph, inputs = graph_of(made), quantized.inputs_of(model, 7)
    (wanted,) = quantized.run(made, inputs)
    (result,) = reference.run(graph, inputs, host=run_host_node).values()
    (step,) = graph.tensors[graph.nodes[-1].inputs[0]].quantization.scale
    assert wanted.std() > 5 * step, "the outputs must tell networks apart"
    assert np.abs(result - wanted).max() <= 4 * step
    assert np.argmax(result) == np.argmax(wanted)

    members = find_set("mobilenet_v2_int8").members
    by_hand = [member.workload for member in members for _ in member.layers]
    (mean,) = (workload for workload in by_hand if workload.kernel == "avg_pool_u8")
    by_hand.remove(mean)
    fits = [(layer.node.operator, layer.fit.workload) for layer in layers(graph)]
    (ones,) = (workload for operator, workload in fits if operator == "average_pool")
    assert ones.params["n"] == mean.params["channels"]
    assert ones.params["k"] == mean.params["size"] ** 2
    others = (workload for operator, workload in fits if operator != "average_pool")
    assert shapes(workload for workload in others if workload) == shapes(by_hand)
