"""Steps of a network: right by the kernels' references, in few crossings, and without leaks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest

from tests.tuner.network.reading.small_graphs import GRAPHS, inputs_of
from tuner.kernels import find_kernel
from tuner.network import Graph, reference
from tuner.network.graph import Array
from tuner.network.layers import layers
from tuner.network.planning.sequence import grouped
from tuner.network.planning.tasks import tasks_of
from tuner.network.running import calls
from tuner.network.running.execution import by_kernel
from tuner.network.running.image import REPACK
from tuner.network.running.steps import (
    CONSTANTS,
    DSP,
    Allocate,
    CopyIn,
    CopyOut,
    Fetch,
    OnHost,
    Part,
    Release,
    Run,
    Steps,
    steps_of,
    units_of,
)
from tuner.network.running.storage import Storage
from tuner.problem.buffers import BufferSpec
from tuner.problem.target import find_target
from tuner.problem.workload import Workload

TARGET = find_target("hexagon-v66")
"""Its vectors have 128 bytes."""


def nothing_beside(workload: Workload) -> float:
    """While it runs, DDR moves what the next call needs, and no more."""
    return 0.0


class Machine:
    """Does steps in NumPy: a buffer is an array, a function its kernel's reference."""

    def __init__(self, graph: Graph, steps: Steps, inputs: dict[str, Array]) -> None:
        self._graph, self._steps = graph, steps
        self._layers = layers(graph)
        self.buffers = {CONSTANTS: steps.constants}
        self.values = {
            **inputs,
            **{n: graph.data[t.data] for n, t in graph.tensors.items() if t.data is not None},
        }

    def run(self) -> None:
        for step in self._steps.steps:
            match step:
                case Allocate():
                    self.buffers[step.buffer] = np.full(step.size_bytes, 0xA5, np.uint8)
                case Release():
                    del self.buffers[step.buffer]
                case CopyIn():
                    held = calls.held(self.values[step.tensor])
                    self.buffers[step.buffer][...] = step.storage.placed(held)
                case CopyOut():
                    dtype = self._graph.tensors[step.tensor].dtype
                    taken = step.storage.taken(self.buffers[step.buffer])
                    self.values[step.tensor] = calls.unheld(taken, dtype)
                case Run():
                    self._call(step)
                case OnHost():
                    node = self._layers[step.place].node
                    operands = [self.values[name] for name in node.inputs if name]
                    made = reference.outputs_of(self._graph, node, operands, None)
                    self.values.update(zip(node.outputs, made, strict=True))

    def _call(self, step: Run) -> None:
        if step.function == REPACK:
            source, made = step.arguments
            given, wanted = cast(Storage, source.form), cast(Storage, made.form)
            elements = given.taken(self.buffers[source.buffer])
            places = replace(wanted, fill=0).placed(np.ones_like(elements)) > 0
            self.buffers[made.buffer][places] = wanted.placed(elements)[places]
            return
        workload = self._steps.functions[step.function - 1]
        *given, made = [self._view(part) for part in step.arguments]
        made[...] = find_kernel(workload.kernel).reference(workload.params, given)[0]

    def _view(self, part: Part) -> Array:
        spec = cast(BufferSpec, part.form)
        assert part.offset_bytes % TARGET.vector_alignment_bytes == 0
        memory = self.buffers[part.buffer][part.offset_bytes :][: spec.payload_bytes]
        return memory.view(spec.dtype).reshape(spec.shape)


def expected(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    """All tensors, those of kernels by their references."""
    values = {
        **inputs,
        **{n: graph.data[t.data] for n, t in graph.tensors.items() if t.data is not None},
    }
    found = layers(graph)
    for layer, unit in zip(found, units_of(graph, found), strict=True):
        operands = [values[name] for name in layer.node.inputs if name]
        if unit == DSP and calls.can_call(layer.node, layer.fit):
            made = [by_kernel(graph, layer, operands)]
        else:
            made = reference.outputs_of(graph, layer.node, operands, None)
        values.update(zip(layer.node.outputs, made, strict=True))
    return values


@pytest.mark.parametrize("name", GRAPHS)
def test_steps_make_what_the_kernels_do_and_leave_nothing(name: str) -> None:
    graph = GRAPHS[name]()
    steps = steps_of(graph, layers(graph), TARGET, nothing_beside)
    machine = Machine(graph, steps, inputs_of(graph))
    machine.run()
    assert set(machine.buffers) == {CONSTANTS}
    right = expected(graph, inputs_of(graph))
    for output in graph.outputs:
        np.testing.assert_array_equal(machine.values[output], right[output])
        assert right[output].std() > 0


@pytest.mark.parametrize("name", GRAPHS)
def test_a_group_on_the_dsp_is_one_batch(name: str) -> None:
    """Between a call and a copy in lies a copy out: a host's layer that needed what was made."""
    graph = GRAPHS[name]()
    found = layers(graph)
    steps = steps_of(graph, found, TARGET, nothing_beside)
    kinds: list[type] = []
    for step in steps.steps:
        kind = type(step)
        if kind in (Run, CopyIn, CopyOut) and kinds[-1:] != [kind]:
            kinds.append(kind)
    assert (Run, CopyIn) not in pairwise(kinds)
    tasks = tasks_of(graph, found, lambda layer: {})
    names = [task.name for task in tasks]
    with_calls = {names[step.place] for step in steps.steps if isinstance(step, Run)}
    batches = [group for group in steps.groups if with_calls & set(group.tasks)]
    assert kinds.count(Run) == len(batches)
    assert {group.unit for group in batches} == {DSP}
    units = dict(zip(names, units_of(graph, found), strict=True))
    assert list(steps.groups) == grouped(tasks, units)


def window(steps: Steps) -> list[tuple[int, int]]:
    """For each call: behind the last constant it reads, and behind the last that was fetched."""
    found, used, fetched = [], 0, 0
    for step in steps.steps:
        if isinstance(step, Fetch):
            assert step.offset_bytes >= fetched, "nothing is fetched twice"
            fetched = step.offset_bytes + step.size_bytes
        elif isinstance(step, Run):
            ends = [
                part.offset_bytes + part.form.payload_bytes
                for part in step.arguments
                if part.buffer == CONSTANTS and isinstance(part.form, BufferSpec)
            ]
            used = max(used, *ends, 0)
            found.append((used, fetched))
    return found


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("beside_bytes", [1000.0])
def test_calls_fetch_the_constants_of_those_after_them(name: str, beside_bytes: float) -> None:
    graph = GRAPHS[name]()
    steps = steps_of(graph, layers(graph), TARGET, lambda workload: beside_bytes)
    quarter = TARGET.l2_bytes // 4
    for (used, fetched), (next_used, _) in pairwise(window(steps)):
        assert max(used, fetched) >= min(next_used, used + quarter)
        assert max(used, fetched) <= min(used + quarter, steps.constants.size)
    used, fetched = window(steps)[-1]
    assert fetched <= used


def repacks(steps: Steps) -> list[Run]:
    return [step for step in steps.steps if isinstance(step, Run) and step.function == REPACK]


@pytest.mark.parametrize(
    ("shape", "order", "innermost"),
    [((1, 3, 4, 5), (0, 2, 3, 1), 4), ((7, 5), None, 16), ((), None, 0), ((2, 3, 4), None, 0)],
)
def test_a_storage_takes_back_what_it_placed(
    shape: tuple[int, ...], order: tuple[int, ...] | None, innermost: int
) -> None:
    storage = Storage.of(shape, order, innermost=innermost)
    elements = np.random.default_rng(1).integers(1, 255, shape, np.uint8)
    memory: Any = storage.placed(elements)
    assert np.count_nonzero(memory) == elements.size
    np.testing.assert_array_equal(storage.taken(memory), elements)


def test_around_an_image_in_blocks_lies_its_zero_point() -> None:
    storage = Storage.in_blocks((1, 5, 7, 6), (0, 1, 2, 3), 77)
    memory = storage.placed(np.full((1, 5, 7, 6), 3, np.uint8))
    assert set(memory.tolist()) == {3, 77}
    assert np.count_nonzero(memory == 3) == 5 * 7 * 6
