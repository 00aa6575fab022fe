"""Runs a network by one image on a DSP: calls are queued, and cross with the copies.

The DSP is the simulator. All constants are copied once, before the network runs. The outputs of the
network must be, bit for bit, those that the references of its kernels make of the same inputs; how
far these are from the network's definition is told, as :mod:`tuner.network.running.execution` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tuner.errors import CandidateError
from tuner.keeping.store import TrialStore
from tuner.kernels import find_kernel
from tuner.network import reference
from tuner.network.graph import Array, Graph
from tuner.network.layers import Layer
from tuner.network.layouts import laid_out
from tuner.network.planning.costs import moved_during_call
from tuner.network.planning.sequence import Group
from tuner.network.reference import HostOperator, Inputs
from tuner.network.running import calls
from tuner.network.running.execution import ON_HOST, Apart, Objects, apart_of, by_kernel
from tuner.network.running.image import (
    REPACK,
    Argument,
    CallCycles,
    Counts,
    Function,
    Host,
    HostError,
    SimulatedDsp,
    linked_image,
)
from tuner.network.running.steps import (
    CONSTANTS,
    Allocate,
    CopyIn,
    CopyOut,
    Fetch,
    OnHost,
    Release,
    Run,
    Step,
    Steps,
    steps_of,
)
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.problem.workload import Problem
from tuner.records.outcome import Outcome

MOVED = "moved"
"""In place of the origin of an object: a layer that moves elements on the DSP, or renames them."""
TIMEOUT_S = 300.0
"""Processor time of the whole run. ResNet-50 at 224x224 ran in two minutes of a busy machine."""


@dataclass(frozen=True)
class LayerRun:
    """A layer that ran: where its object comes from, or the layer in whose call it is done, or
    :data:`MOVED`; its
    calls and their model cycles (``None`` on the host), those without what DDR adds, and the cycles
    of repacking its inputs."""

    layer: Layer
    origin: str
    calls: int
    cycles: int | None
    core_cycles: int
    repack_cycles: int

    @property
    def on_dsp(self) -> bool:
        """Whether the host has no part in it."""
        return self.origin != ON_HOST


@dataclass(frozen=True)
class OffloadedRun:
    """A network that ran. ``set_up`` counts what crossed before, ``counts`` what the run itself
    took. ``peak_bytes`` are the buffers alive at the same time at most, constants included, and
    ``groups`` those of :class:`tuner.network.running.steps.Steps`."""

    layers: tuple[LayerRun, ...]
    outputs: Mapping[str, Array]
    apart: Mapping[str, Apart]
    set_up: Counts
    counts: Counts
    groups: tuple[Group, ...]
    constant_bytes: int
    peak_bytes: int

    @property
    def cycles(self) -> int:
        """Model cycles of all calls of kernels."""
        return sum(run.cycles or 0 for run in self.layers)

    @property
    def core_cycles(self) -> int:
        """:attr:`cycles` if DDR had neither latency nor limits."""
        return sum(run.core_cycles for run in self.layers)

    @property
    def repack_cycles(self) -> int:
        """Model cycles of conversions between storages."""
        return sum(run.repack_cycles for run in self.layers)


def run(
    graph: Graph,
    inputs: Inputs,
    *,
    target: Target,
    store: TrialStore | None = None,
    host: HostOperator | None = None,
    one_call_a_layer: bool = False,
    channels_last: bool = False,
) -> OffloadedRun:
    """Runs ``graph`` on ``inputs``; arguments as of :func:`tuner.network.running.execution.run`.
    ``one_call_a_layer`` flushes the queue after each call, as a program without one would;
    ``channels_last`` as of :func:`tuner.network.layouts.laid_out`.

    Raises ``UserError`` for inputs that do not fit, ``CandidateError`` if an object is wrong, and
    ``DeviceError`` or ``ToolchainError`` without a simulator.
    """
    exact = reference.trace(graph, inputs, host=host)
    given = {name: exact[name] for name in graph.inputs}
    found = laid_out(graph, channels_last=channels_last)
    steps = steps_of(graph, found, target, partial(moved_during_call, target=target, store=store))
    functions, origins = _functions(steps, store, target)
    values = dict(given)
    with (
        linked_image(functions, target) as program,
        SimulatedDsp(program, target, TIMEOUT_S) as dsp,
    ):
        running = _Running(graph, found, steps, dsp.host, values, host, one_call_a_layer)
        try:
            running.set_up()
            before = dsp.host.counts()
            running.run()
        except HostError as error:
            raise dsp.failure(error) from None
        counts, cycles = dsp.host.counts().since(before), dsp.cycles()
    outputs = {name: values[name] for name in graph.outputs}
    _require_right(graph, found, steps, given, outputs, host)
    return OffloadedRun(
        _layer_runs(found, steps, origins, cycles),
        outputs,
        apart_of(graph, outputs, exact),
        before,
        counts,
        steps.groups,
        steps.constants.size,
        running.peak_bytes,
    )


def _functions(
    steps: Steps, store: TrialStore | None, target: Target
) -> tuple[list[Function], list[str]]:
    """The objects of all workloads, and where they come from."""
    functions, origins = [], []
    with Objects(store, target) as objects:
        for workload in steps.functions:
            kernel = find_kernel(workload.kernel)
            artifact, origin = objects.of(Problem(workload, Contract.STATIC, target))
            functions.append(Function(artifact, kernel.buffers(workload.params)))
            origins.append(origin)
    return functions, origins


class _Running:
    """The steps under way. ``values`` are the host's tensors."""

    def __init__(
        self,
        graph: Graph,
        found: Sequence[Layer],
        steps: Steps,
        host: Host,
        values: dict[str, Array],
        operator: HostOperator | None,
        flush_each: bool,
    ) -> None:
        self._graph, self._layers, self._steps = graph, found, steps
        self._host, self._values, self._operator = host, values, operator
        self._flush_each = flush_each
        self._handles: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self.peak_bytes = 0

    def set_up(self) -> None:
        """Copies the constants."""
        for name, tensor in self._graph.tensors.items():
            if tensor.data is not None:
                self._values[name] = self._graph.data[tensor.data]
        if self._steps.constants.size:
            self._allocate(CONSTANTS, self._steps.constants.size)
            self._host.copy_in(self._handles[CONSTANTS], self._steps.constants)

    def run(self) -> None:
        """All steps. What still waits behind the last copy are releases, for the next crossing."""
        for step in self._steps.steps:
            self._do(step)

    def _do(self, step: Step) -> None:
        match step:
            case Allocate():
                self._allocate(step.buffer, step.size_bytes)
            case Release():
                self._host.free(self._handles.pop(step.buffer))
                del self._sizes[step.buffer]
            case CopyIn():
                memory = step.storage.placed(calls.held(self._values[step.tensor]))
                self._host.copy_in(self._handles[step.buffer], memory)
            case CopyOut():
                memory = self._host.copy_out(self._handles[step.buffer], step.storage.size_bytes)
                dtype = self._graph.tensors[step.tensor].dtype
                self._values[step.tensor] = calls.unheld(step.storage.taken(memory), dtype)
            case Fetch():
                constants = self._handles[CONSTANTS]
                self._host.fetch(constants, step.offset_bytes, step.size_bytes)
            case Run():
                self._host.call(step.function, self._arguments(step))
                if self._flush_each:
                    self._host.synchronize()
            case OnHost():
                node = self._layers[step.place].node
                operands = [self._values[name] for name in node.inputs if name]
                made = reference.outputs_of(self._graph, node, operands, self._operator)
                self._values.update(zip(node.outputs, made, strict=True))

    def _allocate(self, buffer: int, size_bytes: int) -> None:
        self._handles[buffer] = self._host.alloc(size_bytes)
        self._sizes[buffer] = size_bytes
        self.peak_bytes = max(self.peak_bytes, sum(self._sizes.values()))

    def _arguments(self, step: Run) -> list[Argument]:
        made, stored = [], []
        for part in step.arguments:
            handle = self._handles[part.buffer]
            if isinstance(part.form, BufferSpec):
                made.append(Argument.of(handle, part.form, part.offset_bytes))
            else:
                stored.append((handle, part.form))
        return [*made, *(Argument.stored(*stored) if stored else ())]


def _require_right(
    graph: Graph,
    found: Sequence[Layer],
    steps: Steps,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    host: HostOperator | None,
) -> None:
    """Raises ``CandidateError`` unless ``outputs`` are those of the kernels' references."""
    called = {
        step.place for step in steps.steps if isinstance(step, Run) and step.function != REPACK
    }
    values = dict(inputs)
    values.update((n, graph.data[t.data]) for n, t in graph.tensors.items() if t.data is not None)
    for place, layer in enumerate(found):
        operands = [values[name] for name in layer.fit.inputs(layer.node)]
        if place in called:
            made = [by_kernel(graph, layer, operands)]
        else:
            made = reference.outputs_of(graph, layer.node, operands, host)
        values.update(zip(layer.node.outputs, made, strict=True))
    for name, output in outputs.items():
        wrong = int(np.count_nonzero(output != values[name]))
        if wrong or output.dtype != values[name].dtype:
            raise CandidateError(
                Outcome.WRONG_OUTPUT,
                f"{wrong} of {output.size} elements of the output '{name}' are not those of the "
                "kernels' references; `hvxtune network run` without --image checks each layer",
            )


def _layer_runs(
    found: Sequence[Layer], steps: Steps, origins: Sequence[str], cycles: Sequence[CallCycles]
) -> tuple[LayerRun, ...]:
    runs = [step for step in steps.steps if isinstance(step, Run)]
    on_host = {step.place for step in steps.steps if isinstance(step, OnHost)}
    made = []
    for place, layer in enumerate(found):
        own = [
            (step.function, took)
            for step, took in zip(runs, cycles, strict=True)
            if step.place == place
        ]
        kernels = [(function, took) for function, took in own if function != REPACK]
        without = layer.fit.within or (ON_HOST if place in on_host else MOVED)
        made.append(
            LayerRun(
                layer,
                origins[kernels[0][0] - 1] if kernels else without,
                len(kernels),
                sum(took.total for _, took in kernels) if kernels else None,
                sum(took.core for _, took in kernels),
                sum(took.total for function, took in own if function == REPACK),
            )
        )
    return tuple(made)
