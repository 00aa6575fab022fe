"""Graphs: what is checked, how they are written, and which layers are one workload."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tuner.errors import UserError
from tuner.network import Node, Quantization, Tensor, checked
from tuner.network.graph import Array, data_digest
from tuner.network.reference import run

WINDOW: dict[str, Any] = {
    "kernel": [1, 1],
    "strides": [1, 1],
    "dilations": [1, 1],
    "pads": [0, 0, 0, 0],
    "layout": "nchw",
    "group": 1,
}


def two_convolutions(second_scale: float = 0.5, seed: int = 1) -> dict[str, Any]:
    """The arguments of :func:`checked`: two 1x1 convolutions, alike but for their data."""
    rng = np.random.default_rng(seed)
    weights = [rng.integers(-128, 128, (4, 4, 1, 1), np.int8) for _ in range(2)]
    data = {data_digest(array): array for array in weights}
    scales = [Quantization.of(0.25, 3), Quantization.of(second_scale, 7), Quantization.of(2.0, 9)]
    shape = (1, 4, 5, 5)
    tensors = [
        *(Tensor(f"x{n}", shape, "uint8", scale) for n, scale in enumerate(scales)),
        *(
            Tensor(f"w{n}", (4, 4, 1, 1), "int8", Quantization.of(0.01 * (n + 1), 0), digest)
            for n, digest in enumerate(data)
        ),
    ]
    nodes = [
        Node("b", "conv", ("x1", "w1"), ("x2",), {**WINDOW, "low": 9}),
        Node("a", "conv", ("x0", "w0"), ("x1",), WINDOW),
    ]
    return {
        "name": "two",
        "tensors": tensors,
        "nodes": nodes,
        "inputs": ["x0"],
        "outputs": ["x2"],
        "data": data,
    }


def test_a_convolution_is_its_sum_requantized_half_to_even():
    made = two_convolutions()
    graph = checked(**made)
    image = np.full((1, 4, 5, 5), 200, np.uint8)
    weights = graph.constant("w0").astype(np.int64).reshape(4, 4)
    sums = (200 - 3) * weights.sum(axis=1)
    scale = np.float32(0.25) * np.float32(0.01) / np.float32(0.5)
    expected = np.clip(np.rint(sums.astype(np.float32) * scale) + 7, 0, 255)
    made["outputs"] = ["x1"]
    result = run(checked(**made), {"x0": image})["x1"]
    assert np.array_equal(result[0, :, 2, 3], expected)


def cycle(made: dict[str, Any]) -> None:
    made["nodes"][1] = replace(made["nodes"][1], inputs=("x2", "w0"))


def wrong_shape(made: dict[str, Any]) -> None:
    made["tensors"][2] = replace(made["tensors"][2], shape=(1, 4, 5, 6))


@pytest.mark.parametrize(
    ("spoil", "named"),
    [(cycle, "'b' is part of a cycle"), (wrong_shape, "[1, 4, 5, 6]")],
)
def test_a_graph_that_is_wrong_is_refused_by_name(spoil, named):
    made = two_convolutions()
    spoil(made)
    with pytest.raises(UserError) as refused:
        checked(**made)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


class OfAnotherLibrary:
    """A tensor that no more is known of than DLPack tells."""

    def __init__(self, elements: Array, kind: int = 1) -> None:
        self._elements, self._kind = elements, kind

    def __dlpack__(self, **how: Any) -> Any:
        if self._kind != 1:
            raise BufferError("it is on another device")
        return self._elements.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._kind, 0


def test_inputs_may_be_tensors_of_another_library() -> None:
    graph = checked(**two_convolutions())
    elements = np.random.default_rng(2).integers(0, 256, (1, 4, 5, 5), np.uint8)
    expected = run(graph, {"x0": elements})
    made = run(graph, {"x0": OfAnotherLibrary(elements)})
    assert {name: array.tobytes() for name, array in made.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
    with pytest.raises(UserError, match=r"given as OfAnotherLibrary: it is on another device"):
        run(graph, {"x0": OfAnotherLibrary(elements, kind=2)})
    with pytest.raises(UserError, match=r"'x0' is given uint8\[4\]"):
        run(graph, {"x0": OfAnotherLibrary(elements[0, 0, 0, :4].copy())})
    with pytest.raises(UserError, match=r"given as list: .*__dlpack__"):
        run(graph, {"x0": elements.tolist()})
