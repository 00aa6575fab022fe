"""Functions of one element become tables while a graph is made, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tuner.network import Node, Quantization, Tensor, checked, reference
from tuner.network.graph import Array
from tuner.network.reading.building import GraphBuilder

SHAPE = (1, 2, 8, 16)
LEFT, RIGHT, MADE = (Quantization.of(*numbers) for numbers in ((0.1, 3), (0.03, -90), (0.2, 20)))
ONE = np.array([[77]], np.int8)
RANDOM = np.random.default_rng(5).integers(-128, 128, SHAPE, np.int8)


def builder() -> GraphBuilder:
    made = GraphBuilder("one")
    for name, quantization in (("a", LEFT), ("b", RIGHT)):
        made.tensors[name] = Tensor(name, SHAPE, "int8", quantization)
    made.constant("c", ONE, RIGHT)
    return made


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "nodes"),
    [
        ("mul", ("a", "c"), {"low": 0}, ["table"]),
        ("concat", ("a", "b", "a"), {"axis": 1, "high": 99}, ["table"] * 3 + ["concat"]),
    ],
)
def test_a_function_of_one_element_is_a_table(
    operator: str, inputs: tuple[str, ...], attributes: dict[str, Any], nodes: list[str]
) -> None:
    given: dict[str, Array] = {"a": RANDOM, "b": RANDOM[..., ::-1].copy()}
    made = builder()
    made.emit(operator, inputs, "y", MADE, "uint8", attributes)
    assert [node.operator for node in made.nodes] == nodes
    graph = made.finished(["a", "b"], ["y"])
    right = checked(
        "right",
        [*builder().tensors.values(), graph.tensors["y"]],
        [Node("right", operator, inputs, ("y",), attributes)],
        ["a", "b"],
        ["y"],
        builder().data,
    )
    exact = reference.run(right, given)["y"]
    assert exact.std() > 5
    np.testing.assert_array_equal(reference.run(graph, given)["y"], exact)
