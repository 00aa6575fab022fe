"""Runs a network on the simulator, layer by layer, each by the object of its kernel.

A layer that a kernel does (:func:`tuner.network.running.calls.can_call`) is compiled, called on the
values that the layers before it made, and every byte it writes is compared with the kernel's
reference; all others are computed exactly on the host. Each layer's output is then compared with
what the network defines for the same operands, and the outputs of the network with those of
:func:`tuner.network.reference.run`. Objects are those of the best stored schedules, or else made by
the textbook ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tuner.codegen import CodeGenerator, find_generator
from tuner.errors import CandidateError
from tuner.keeping.best import lookup_of
from tuner.keeping.store import TrialStore
from tuner.kernels import find_kernel
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.network import reference
from tuner.network.graph import Array, Graph
from tuner.network.layers import Layer
from tuner.network.layouts import laid_out
from tuner.network.reference import HostOperator, Inputs
from tuner.network.running import calls
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.problem.workload import Problem
from tuner.records.candidate import Artifact, Candidate

GENERATOR = "halide"
"""Makes the objects of textbook schedules, of kernels that have no generator of their own."""
STORED, TEXTBOOK, ON_HOST = "stored", "textbook", "host"
"""Where a layer's object comes from, if it has one."""


@dataclass(frozen=True)
class Apart:
    """How far integers are from those they should be: the most steps, and how many of all are."""

    steps: int
    elements: int
    of: int


@dataclass(frozen=True)
class LayerRun:
    """One layer that ran: the origin of its object, or the layer in whose call it is done; the
    model cycles of its calls (``None`` without any), and how far its output is from the network's
    for the same operands, which are those of its call."""

    layer: Layer
    origin: str
    cycles: int | None
    apart: Apart


@dataclass(frozen=True)
class NetworkRun:
    """A network that ran: its layers in order, its outputs by name, and how far these are from the
    reference's for the same inputs, where they are integers or made from some."""

    layers: tuple[LayerRun, ...]
    outputs: Mapping[str, Array]
    apart: Mapping[str, Apart]

    @property
    def cycles(self) -> int:
        """Model cycles of all calls."""
        return sum(run.cycles or 0 for run in self.layers)


def run(
    graph: Graph,
    inputs: Inputs,
    *,
    target: Target,
    store: TrialStore | None = None,
    host: HostOperator | None = None,
    on_layer: Callable[[LayerRun], None] | None = None,
    channels_last: bool = False,
) -> NetworkRun:
    """Runs ``graph`` on ``inputs``, with caches warm and static shapes.

    ``store`` has the schedules to use; ``host`` as in :func:`tuner.network.reference.run`;
    ``on_layer`` is told of each layer as it has run; ``channels_last`` as of
    :func:`tuner.network.layouts.laid_out`. Raises ``UserError`` for inputs that do not
    fit, and ``CandidateError`` if an object is wrong.
    """
    exact = reference.trace(graph, inputs, host=host)
    with Objects(store, target) as objects, QemuMeasurer() as measurer:
        running = _Run(graph, exact, objects, measurer, host)
        done = []
        for layer in laid_out(graph, channels_last=channels_last):
            done.append(running.layer(layer))
            if on_layer is not None:
                on_layer(done[-1])
    outputs = {name: running.values[name] for name in graph.outputs}
    return NetworkRun(tuple(done), outputs, apart_of(graph, outputs, exact))


def apart_of(
    graph: Graph, outputs: Mapping[str, Array], exact: Mapping[str, Array]
) -> dict[str, Apart]:
    """How far each of the ``outputs`` of ``graph`` is from the ``exact`` one."""
    steps = _steps(graph)
    return {name: _apart(made, exact[name], steps.get(name, 1.0)) for name, made in outputs.items()}


def by_kernel(graph: Graph, layer: Layer, operands: Sequence[Array]) -> Array:
    """The output of a layer by the reference of its kernel, for the operands of its call."""
    workload = layer.fit.workload
    assert workload is not None  # noqa: S101 - can_call says so
    kernel = find_kernel(workload.kernel)
    made = [
        array
        for inputs in calls.arguments(graph, layer.node, layer.fit, operands)
        for array in kernel.reference(workload.params, inputs)
    ]
    return calls.result(graph, layer.node, layer.fit, operands, made)


class TextbookObjects:
    """Makes the objects of textbook schedules, by the generators of their kernels."""

    def __init__(self) -> None:
        self._generators: dict[str, CodeGenerator] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for generator in self._generators.values():
            generator.close()

    def candidate(self, problem: Problem) -> tuple[Candidate, CodeGenerator]:
        """The textbook schedule for ``problem``, and the generator that compiles it."""
        kernel = find_kernel(problem.workload.kernel)
        name = kernel.generator or GENERATOR
        if name not in self._generators:
            self._generators[name] = find_generator(name)(1)
        config = find_generator(name).starts(kernel, problem)["textbook"]
        return Candidate(problem, config, name), self._generators[name]


class Objects(TextbookObjects):
    """The object of each problem, made or looked up once."""

    def __init__(self, store: TrialStore | None, target: Target) -> None:
        super().__init__()
        self._store, self.target = store, target
        self._found: dict[str, tuple[Artifact, str]] = {}

    def of(self, problem: Problem) -> tuple[Artifact, str]:
        """The object for ``problem``, and its origin."""
        if problem.digest not in self._found:
            self._found[problem.digest] = self._stored(problem) or self._textbook(problem)
        return self._found[problem.digest]

    def _stored(self, problem: Problem) -> tuple[Artifact, str] | None:
        best = None if self._store is None else self._store.best(lookup_of(problem))
        if best is None or self._store is None:
            return None
        return self._store.artifact(best.artifact_digest), STORED

    def _textbook(self, problem: Problem) -> tuple[Artifact, str]:
        candidate, generator = self.candidate(problem)
        return generator.compile(candidate), TEXTBOOK


class _Run:
    """A run under way. ``values`` are its tensors so far: constants and inputs are the exact
    ones."""

    def __init__(
        self,
        graph: Graph,
        exact: Mapping[str, Array],
        objects: Objects,
        measurer: QemuMeasurer,
        host: HostOperator | None,
    ) -> None:
        self._graph, self._objects, self._measurer, self._host = graph, objects, measurer, host
        made = {name for node in graph.nodes for name in node.outputs}
        self.values = {name: value for name, value in exact.items() if name not in made}

    def layer(self, layer: Layer) -> LayerRun:
        """Computes one layer from the values of those before it."""
        node = layer.node
        operands = [self.values[name] for name in node.inputs if name]
        defined = reference.outputs_of(self._graph, node, operands, self._host)
        cycles, origin, made = None, layer.fit.within or ON_HOST, defined
        if calls.can_call(node, layer.fit):
            of_call = [self.values[name] for name in layer.fit.inputs(node)]
            cycles, origin, output = self._called(layer, of_call)
            made = [output]
        self.values.update(zip(node.outputs, made, strict=True))
        return LayerRun(layer, origin, cycles, _apart(made[0], defined[0]))

    def _called(self, layer: Layer, operands: list[Array]) -> tuple[int, str, Array]:
        fit = layer.fit
        assert fit.workload is not None  # noqa: S101 - can_call says so
        problem = Problem(fit.workload, Contract.STATIC, self._objects.target)
        cycles = 0
        try:
            artifact, origin = self._objects.of(problem)
            for inputs in calls.arguments(self._graph, layer.node, fit, operands):
                timed = self._measurer.measure_on(problem, artifact, inputs)
                cycles += timed.measurement.cycles
        except CandidateError as error:
            error.message = f"layer '{layer.node.name}', {fit.workload.label}: {error.message}"
            raise
        return cycles, origin, by_kernel(self._graph, layer, operands)


def _apart(made: Array, exact: Array, step: float = 1.0) -> Apart:
    """Both in units of ``step``, whole numbers."""
    steps = np.abs(made.astype(np.float64) - exact) / step
    return Apart(round(float(steps.max(initial=0))), int(np.count_nonzero(steps)), made.size)


def _steps(graph: Graph) -> dict[str, float]:
    """The real number that one step of an integer is, for each tensor made from integers."""
    found = {}
    for node in graph.nodes:
        quantization = graph.tensors[node.inputs[0]].quantization if node.inputs else None
        if node.operator == "dequantize" and quantization is not None:
            found[node.outputs[0]] = max(quantization.scale)
    return found
