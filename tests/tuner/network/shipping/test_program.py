"""Programs of bundles in NumPy: right whatever the arena holds; buffers in use never overlap."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from tests.tuner.network.reading.small_graphs import inputs_of
from tests.tuner.network.running.test_steps import expected, nothing_beside
from tests.tuner.network.shipping.graphs import GRAPHS
from tests.tuner.network.test_layouts import residuals
from tuner.kernels import find_kernel
from tuner.kernels.blocked import BlockedConv, BlockedExpandedConv
from tuner.network import Graph, Tensor, checked, layouts, reference
from tuner.network.graph import Array, Node
from tuner.network.layers import layers
from tuner.network.shipping.arena import Lifetime, planned
from tuner.network.shipping.edges import within_edges
from tuner.network.shipping.program import (
    Call,
    Copy,
    Fill,
    Memory,
    Outside,
    Place,
    Program,
    program_of,
)
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")
ALIGNMENT = TARGET.vector_alignment_bytes


class Memories:
    """Runs a program in NumPy, a function as its kernel's reference."""

    def __init__(self, graph: Graph, program: Program, inputs: dict[str, Array], fill: int) -> None:
        self._graph, self._program, self._layers = graph, program, layers(graph)
        self._arena = np.full(program.arena.size_bytes, fill, np.uint8)
        self._inputs = [np.frombuffer(inputs[name].tobytes(), np.uint8) for name in graph.inputs]
        self._outputs = [
            np.full(graph.tensors[name].payload_bytes, fill, np.uint8) for name in graph.outputs
        ]

    def run(self) -> dict[str, Array]:
        for operation in self._program.operations:
            match operation:
                case Call():
                    self._call(operation)
                case Copy():
                    source = self._bytes(operation.source)
                    read = as_strided(source, operation.extents, operation.source_strides)
                    target = self._bytes(operation.target)
                    written = as_strided(target, operation.extents, operation.target_strides)
                    written[...] = read ^ np.uint8(operation.flip)
                case Fill():
                    filled = self._bytes(operation.target)[: operation.size_bytes]
                    filled[...] = operation.value
                case Outside():
                    self._outside(operation)
        return {
            name: self._tensor(name, Place(Memory.OUTPUT, number)).copy()
            for number, name in enumerate(self._graph.outputs)
        }

    def _bytes(self, place: Place) -> Array:
        match place.memory:
            case Memory.ARENA:
                offset = self._program.arena.offsets[place.number] + place.offset_bytes
                return self._arena[offset:]
            case Memory.CONSTANTS:
                return self._program.constants[place.offset_bytes :]
            case Memory.INPUT:
                return self._inputs[place.number][place.offset_bytes :]
            case Memory.OUTPUT:
                return self._outputs[place.number][place.offset_bytes :]

    def _tensor(self, name: str, place: Place) -> Array:
        tensor = self._graph.tensors[name]
        memory = self._bytes(place)[: tensor.payload_bytes]
        return memory.view(tensor.dtype).reshape(tensor.shape)

    def _call(self, call: Call) -> None:
        workload = self._program.functions[call.function]
        specs = find_kernel(workload.kernel).buffers(workload.params)
        *read, made = [
            self._bytes(place)[: spec.payload_bytes].view(spec.dtype).reshape(spec.shape)
            for place, spec in zip(call.arguments, specs, strict=True)
        ]
        made[...] = find_kernel(workload.kernel).reference(workload.params, read)[0]

    def _outside(self, step: Outside) -> None:
        node = self._layers[step.layer].node
        names = [name for name in node.inputs if name]
        operands = [self._tensor(n, p) for n, p in zip(names, step.operands, strict=True)]
        made = reference.outputs_of(self._graph, node, operands, None)
        for name, place, result in zip(node.outputs, step.results, made, strict=True):
            self._tensor(name, place)[...] = result


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("fill", [0, 0xA5])
def test_a_program_makes_what_the_kernels_do(name: str, fill: int) -> None:
    graph = GRAPHS[name]()
    program = program_of(graph, layers(graph), TARGET, nothing_beside)
    made = Memories(graph, program, inputs_of(graph), fill).run()
    right = expected(graph, inputs_of(graph))
    for output in graph.outputs:
        np.testing.assert_array_equal(made[output], right[output])


def test_a_program_has_images_in_blocks_and_converts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layouts, "_MACS_OF_REPACKED_BYTE", 0)
    graph = residuals(with_windows_of_a_sum=True)
    program = program_of(graph, layouts.laid_out(graph), TARGET, nothing_beside)
    assert {BlockedConv.name, BlockedExpandedConv.name} <= {w.kernel for w in program.functions}
    made = Memories(graph, program, inputs_of(graph), 0xA5).run()
    right = expected(graph, inputs_of(graph))
    for output in graph.outputs:
        np.testing.assert_array_equal(made[output], right[output])


@given(
    st.lists(st.tuples(st.integers(1, 4000), st.integers(0, 20), st.integers(0, 6)), max_size=30)
)
def test_buffers_in_use_never_overlap(drawn: list[tuple[int, int, int]]) -> None:
    buffers = [Lifetime(size, first, first + more) for size, first, more in drawn]
    arena = planned(buffers, ALIGNMENT)
    assert arena.bound_bytes <= arena.size_bytes
    placed = list(zip(buffers, arena.offsets, strict=True))
    for buffer, offset in placed:
        assert offset % ALIGNMENT == 0
        assert offset + buffer.size_bytes <= arena.size_bytes
    for (one, at), (other, there) in combinations(placed, 2):
        if one.first <= other.last and other.first <= one.last:
            assert at + one.size_bytes <= there or there + other.size_bytes <= at


def with_edges(graph: Graph) -> Graph:
    """``graph`` of real numbers: quantized before and made real after."""
    tensors, nodes, ends = list(graph.tensors.values()), list(graph.nodes), []
    for name in (*graph.inputs, *graph.outputs):
        real = Tensor(f"{name}_real", graph.tensors[name].shape, "float32")
        tensors.append(real)
        ends.append(real.name)
        at_start = name in graph.inputs
        pair = (real.name, name) if at_start else (name, real.name)
        operator = "quantize" if at_start else "dequantize"
        nodes.append(Node(f"{operator} {name}", operator, pair[:1], pair[1:]))
    inputs = len(graph.inputs)
    return checked(graph.name, tensors, nodes, ends[:inputs], ends[inputs:], graph.data)


def test_a_bundle_begins_and_ends_with_integers() -> None:
    graph = GRAPHS["two branches"]()
    inner, edges = within_edges(with_edges(graph))
    assert inner.as_dict() == graph.as_dict()
    assert [node.operator for node in (*edges.quantize, *edges.dequantize)] == [
        "quantize",
        "dequantize",
    ]
    again, none = within_edges(graph)
    assert again == graph
    assert none.quantize == none.dequantize == ()
