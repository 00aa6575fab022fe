"""Layers: their work, the kernel of their shape, and whether its results are the network's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tuner.kernels import find_kernel
from tuner.network import Graph, Node, Quantization, Tensor, checked
from tuner.network.graph import Array, data_digest
from tuner.network.layers import fit
from tuner.network.reference import run
from tuner.network.running import calls

IMAGE = (1, 6, 6, 8)
"""With channels last, as the kernels have them."""
WINDOW: dict[str, Any] = {
    "kernel": [3, 3],
    "strides": [2, 2],
    "dilations": [1, 1],
    "pads": [1, 1, 1, 1],
    "layout": "nhwc",
    "group": 1,
}


def one_convolution(
    scale_out: float = 0.9,
    weights_scale: tuple[float, ...] = (0.02,),
    dtype: str = "uint8",
    weights_zero: int = 0,
    **changed: Any,
) -> Graph:
    attributes = {**WINDOW, **changed}
    rng = np.random.default_rng(4)
    weights = rng.integers(-128, 128, (4, 8, *attributes["kernel"]), np.int8)
    bias = rng.integers(-2000, 2000, 4, np.int32)
    low = np.iinfo(dtype).min
    data = {data_digest(array): array for array in (weights, bias)}
    names = list(data)
    quantization = Quantization(
        weights_scale, (weights_zero,) * len(weights_scale), 0 if len(weights_scale) > 1 else None
    )
    made = (1, *(-(-n // attributes["strides"][0]) for n in IMAGE[1:3]), 4)
    return checked(
        "one",
        [
            Tensor("x", IMAGE, dtype, Quantization.of(0.05, low + 100)),
            Tensor("w", weights.shape, "int8", quantization, names[0]),
            Tensor("b", bias.shape, "int32", None, names[1]),
            Tensor("y", made, dtype, Quantization.of(scale_out, low + 120)),
        ],
        [Node("conv", "conv", ("x", "w", "b"), ("y",), attributes)],
        ["x"],
        ["y"],
        data,
    )


def made_by_kernel(graph: Graph, operands: list[Array]) -> Array:
    """The first node's output by its kernel's reference."""
    node, found = graph.nodes[0], fit(graph, graph.nodes[0])
    assert found.workload is not None
    assert calls.can_call(node, found)
    kernel, params = find_kernel(found.workload.kernel), found.workload.params
    arguments = calls.arguments(graph, node, found, operands)
    made = [kernel.reference(params, one)[0] for one in arguments]
    return calls.result(graph, node, found, operands, made)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"weights_scale": (0.02, 0.01, 0.02, 0.03)},
        {"pads": [0, 0, 1, 1]},
        {"low": 20, "high": 90},
    ],
)
def test_the_kernel_of_a_convolution_makes_what_the_network_does(
    dtype: str, changed: dict[str, Any]
) -> None:
    """Within the steps that its fit states, on i8 held as u8, too; channels that only pad go."""
    graph = one_convolution(dtype=dtype, **changed)
    found = fit(graph, graph.nodes[0])
    assert found.steps == 1
    limits = np.iinfo(dtype)
    image = np.random.default_rng(5).integers(limits.min, limits.max, IMAGE, dtype, endpoint=True)
    exact = run(graph, {"x": image})["y"].astype(np.int64)
    weights, bias = graph.constant("w"), graph.constant("b")
    assert weights is not None
    assert bias is not None
    made = made_by_kernel(graph, [image, weights, bias])
    assert exact.std() > 10
    assert made.shape == exact.shape
    assert np.abs(made - exact).max() <= found.steps


def one_product(constant: bool, zero: int) -> Graph:
    rng = np.random.default_rng(6)
    weights = rng.integers(0, 256, (8, 5), np.uint8)
    shape = weights.shape if constant else (3, *weights.shape)
    digest = data_digest(weights) if constant else None
    return checked(
        "product",
        [
            Tensor("x", (3, 4, 8), "uint8", Quantization.of(0.05, 100)),
            Tensor("w", shape, "uint8", Quantization.of(0.02, zero), digest),
            Tensor("y", (3, 4, 5), "int8", Quantization.of(0.2, 3)),
        ],
        [Node("product", "matmul", ("x", "w"), ("y",))],
        ["x"] if constant else ["x", "w"],
        ["y"],
        {digest: weights} if digest else {},
    )


@pytest.mark.parametrize(
    ("constant", "zero", "kernel"),
    [(True, 128, "qconv2d_u8"), (True, 90, "qgemm_u8"), (False, 90, "qgemm_u8")],
)
def test_the_kernel_of_a_product_makes_what_the_network_does(
    constant: bool, zero: int, kernel: str
) -> None:
    graph = one_product(constant, zero)
    found = fit(graph, graph.nodes[0])
    assert found.workload is not None
    assert (found.workload.kernel, found.calls) == (kernel, 1 if constant else 3)
    rng = np.random.default_rng(7)
    left = rng.integers(0, 256, (3, 4, 8), np.uint8)
    right = graph.constant("w")
    given = {"x": left}
    if right is None:
        right = given["w"] = rng.integers(0, 256, (3, 8, 5), np.uint8)
    exact = run(graph, given)["y"].astype(np.int64)
    assert exact.std() > 10
    assert np.abs(made_by_kernel(graph, [left, right]) - exact).max() <= 1


def one_mean(
    extents: tuple[int, int], size: tuple[int, int], scale_out: float, low: int = -128
) -> Graph:
    rows, columns = extents
    made = (1, rows - size[0] + 1, columns - size[1] + 1, 8)
    window = {"kernel": [*size], "strides": [1, 1], "pads": [0] * 4, "count_padding": False}
    attributes = {**window, "dilations": [1, 1], "layout": "nhwc", "low": low}
    return checked(
        "mean",
        [
            Tensor("x", (1, rows, columns, 8), "int8", Quantization.of(0.05, 3)),
            Tensor("y", made, "int8", Quantization.of(scale_out, 3)),
        ],
        [Node("mean", "average_pool", ("x",), ("y",), attributes)],
        ["x"],
        ["y"],
        {},
    )


@pytest.mark.parametrize(
    ("graph", "kernel"),
    [
        (one_mean((6, 6), (2, 2), 0.05), "avg_pool_u8"),
        (one_mean((7, 7), (7, 7), 0.02), "qgemm_u8"),
        (one_mean((9, 20), (9, 20), 0.05), "qgemm_u8"),
    ],
)
def test_the_kernel_of_a_mean_makes_what_the_network_does(graph: Graph, kernel: str) -> None:
    found = fit(graph, graph.nodes[0])
    assert found.workload is not None
    assert found.workload.kernel == kernel
    rng = np.random.default_rng(8)
    apart = []
    for shift in range(-100, 100, 10):  # means lie close to each other
        shape = graph.tensors["x"].shape
        image = np.clip(rng.normal(shift, 20, shape), -128, 127).astype(np.int8)
        exact = run(graph, {"x": image})["y"].astype(np.int64)
        apart.append(np.abs(made_by_kernel(graph, [image]) - exact).max())
    assert found.steps is not None
    assert max(apart) <= found.steps


@pytest.mark.parametrize(("scales", "steps"), [((0.04, 0.07), 1), ((0.1, 0.1), 0)])
def test_the_kernel_of_an_addition_is_off_by_what_its_fit_states(
    scales: tuple[float, float], steps: int
) -> None:
    """Counted over all pairs of bytes."""
    names = ("a", "b")
    graph = checked(
        "sum",
        [
            *(
                Tensor(name, (1, 1, 256, 256), "uint8", Quantization.of(scale, 90))
                for name, scale in zip(names, scales, strict=True)
            ),
            Tensor("y", (1, 1, 256, 256), "int8", Quantization.of(0.1, -5)),
        ],
        [Node("sum", "add", names, ("y",), {"low": -100})],
        names,
        ["y"],
        {},
    )
    byte = np.arange(256, dtype=np.uint8)
    pairs = [
        np.ascontiguousarray(plane)[None, None]
        for plane in np.broadcast_arrays(byte[:, None], byte)
    ]
    exact = run(graph, dict(zip(names, pairs, strict=True)))["y"].astype(np.int64)
    found = fit(graph, graph.nodes[0])
    assert np.abs(made_by_kernel(graph, pairs) - exact).max() == found.steps
    assert found.steps is not None
    assert found.steps <= steps
