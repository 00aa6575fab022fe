"""Layers on a mesh of equal elements, by hierarchy: each coordinator has a subset of elements in a
row, takes what follows the part of the coordinator before it, and splits that over its own.

A layer has a number of equal parts that cannot be split; elements hold parts of one layer, or of a
few in a row, and work at the same time on inputs of a stream. For a given interval, filling
elements in order with as much as each can do needs the fewest of them; so the shortest interval of
all plans that keep layers in order is found by bisection, in time that grows with layers and
coordinators, not with elements.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

from tuner.errors import UserError
from tuner.network.planning.stream import StreamPlan, operations_of
from tuner.network.planning.tasks import Task, in_order
from tuner.network.planning.topology import Topology, Unit

_PRECISION = 1e-6
"""Of the interval, as a share."""


@dataclass(frozen=True)
class MeshLayer:
    """A layer of ``parts`` equal parts. An element takes ``part_us`` for each of them, and
    ``fixed_us`` for each input besides (microseconds); it holds ``fixed_bytes``, ``part_bytes`` for
    each part, and the weights of its parts, which repeat after ``columns`` parts."""

    name: str
    parts: int
    part_us: float
    fixed_us: float = 0.0
    part_bytes: float = 0.0
    fixed_bytes: float = 0.0
    weight_bytes: int = 0
    columns: int = 1
    needs: tuple[str, ...] = ()

    def time_us(self, parts: int) -> float:
        """Microseconds that an element takes for ``parts`` of an input."""
        return self.fixed_us + parts * self.part_us

    def held_bytes(self, parts: int) -> float:
        """Bytes that an element holds for ``parts``."""
        weights = self.weight_bytes * min(parts, self.columns) / self.columns
        return self.fixed_bytes + parts * self.part_bytes + weights

    def most_parts(self, time_us: float, held_bytes: float) -> int:
        """The most parts for which an element has the time and the memory."""
        parts = range(1, self.parts + 1)
        fits = bisect_right(parts, time_us * (1 + _PRECISION / 10), key=self.time_us)
        return min(fits, bisect_right(parts, held_bytes, key=self.held_bytes))


@dataclass(frozen=True)
class Share:
    """``elements`` elements from ``first_element`` on, each with ``parts`` parts of ``layer``, from
    ``first_part`` on."""

    layer: str
    first_element: int
    elements: int
    first_part: int
    parts: int


@dataclass(frozen=True)
class MeshPlan:
    """The shares of each coordinator. ``interval_us`` is the time of the busiest element for one
    input, ``latency_us`` that of one input through all layers (microseconds). No plan has an
    interval below ``bound_us``: all work spread evenly, or the longest part."""

    coordinators: tuple[tuple[Share, ...], ...]
    interval_us: float
    latency_us: float
    bound_us: float

    @property
    def gap(self) -> float:
        """The share of the interval that a better plan could still save at most."""
        return 1 - self.bound_us / self.interval_us if self.interval_us else 0.0


def plan_mesh(layers: Sequence[MeshLayer], unit: Unit) -> MeshPlan:
    """The plan of the shortest interval for ``layers``, each after those it needs, on ``unit``.

    Raises ``UserError`` if its memory does not hold them.
    """
    whole_us = sum(layer.time_us(layer.parts) for layer in layers)
    if (found := _filled(layers, unit, whole_us)) is None:
        held = sum(layer.held_bytes(layer.parts) for layer in layers)
        raise UserError(
            f"{len(layers)} layers of {held:,.0f} bytes do not fit on the {unit.elements:,} "
            f"elements of {unit.name}, of {unit.element_bytes:,} bytes each",
            accepted="elements that hold the weights and operands of their parts",
            next_step=f"raise units.{unit.name}.elements or element_bytes",
        )
    longest_us = max((layer.time_us(1) for layer in layers), default=0.0)
    low = bound_us = max(whole_us / unit.elements, longest_us)
    high = whole_us
    if (best := _filled(layers, unit, low)) is not None:
        found, high = best, low
    while high > low * (1 + _PRECISION):
        middle = (low * high) ** 0.5
        if (best := _filled(layers, unit, middle)) is None:
            low = middle
        else:
            found, high = best, middle
    by_name = {layer.name: layer for layer in layers}
    busy: dict[int, float] = defaultdict(float)
    slowest: dict[str, float] = defaultdict(float)
    for share in (share for own in found for share in own):
        took = by_name[share.layer].time_us(share.parts)
        # Of a run of elements, only the last may have a share of the next layer, too.
        for element in {share.first_element, share.first_element + share.elements - 1}:
            busy[element] += took
        slowest[share.layer] = max(slowest[share.layer], took)
    ended: dict[str, float] = {}
    for layer in layers:
        begun = max((ended[need] for need in layer.needs), default=0.0)
        ended[layer.name] = begun + slowest[layer.name]
    return MeshPlan(
        tuple(map(tuple, found)),
        max(busy.values(), default=0.0),
        max(ended.values(), default=0.0),
        bound_us,
    )


def require_room(layers: Sequence[MeshLayer], unit: Unit) -> None:
    """Raises ``UserError`` if elements that share each of ``layers`` evenly do not hold them."""
    held = sum(layer.held_bytes(ceil(layer.parts / unit.elements)) for layer in layers)
    if unit.element_bytes and held > unit.element_bytes:
        raise UserError(
            f"{len(layers)} layers that share all elements of {unit.name} take {held:,.0f} bytes "
            f"of each, of {unit.element_bytes:,}",
            accepted="elements that hold the weights and operands of their parts",
            next_step=f"raise units.{unit.name}.element_bytes, or plan for throughput",
        )


def with_even_times(
    tasks: Sequence[Task], topology: Topology, layer_of: Callable[[str, Unit], MeshLayer]
) -> list[Task]:
    """``tasks`` as a stream sees them: of a mesh, each takes its even share."""
    meshes = {unit.name: unit for unit in topology.units if unit.elements > 1}
    return [
        replace(
            task,
            time_us={
                name: even_us(layer_of(task.name, meshes[name]), meshes[name])
                if name in meshes
                else time_us
                for name, time_us in task.time_us.items()
            },
        )
        for task in tasks
    ]


def split_stream(
    made: StreamPlan,
    tasks: Sequence[Task],
    topology: Topology,
    layer_of: Callable[[str, Unit], MeshLayer],
) -> tuple[StreamPlan, dict[str, MeshPlan]]:
    """A plan of :func:`with_even_times`, with the interval that its meshes reach, and the plan of
    each mesh by its name."""
    ordered = in_order(tasks, topology)
    meshes: dict[str, MeshPlan] = {}
    for unit in topology.units:
        own = {task.name for task in tasks if made.units[task.name] == unit.name}
        if unit.elements == 1 or not own:
            continue
        layers = [
            replace(layer_of(task.name, unit), name=task.name, needs=tuple(own & set(task.needs)))
            for task in ordered
            if task.name in own
        ]
        meshes[unit.name] = split = plan_mesh(layers, unit)
        even = sum(even_us(layer, unit) for layer in layers)
        slower = split.interval_us / even if even else 1.0
        ordered = [
            replace(task, time_us={unit.name: task.time_us[unit.name] * slower})
            if task.name in own
            else task
            for task in ordered
        ]
    operations = operations_of(ordered, made.units, topology)
    return replace(made, operations=operations), meshes


def even_us(layer: MeshLayer, unit: Unit) -> float:
    """Microseconds that ``layer`` takes of each element's time if all share it evenly, however
    fine."""
    return layer.time_us(layer.parts) / unit.elements


def _filled(
    layers: Sequence[MeshLayer], unit: Unit, interval_us: float
) -> list[list[Share]] | None:
    """The shares of each coordinator within ``interval_us``; ``None`` if layers are left over."""
    left = deque((layer, 0) for layer in layers)
    borders = [unit.elements * n // unit.coordinators for n in range(unit.coordinators + 1)]
    shares = [
        _taken(left, first, end, interval_us, unit.element_bytes or float("inf"))
        for first, end in pairwise(borders)
    ]
    return None if left else shares


def _taken(
    left: deque[tuple[MeshLayer, int]], element: int, end: int, most_us: float, most_bytes: float
) -> list[Share]:
    """The shares of a coordinator of the elements up to ``end``, taken of the layers that are
    ``left``, each with its first part that is."""
    own: list[Share] = []
    left_us, left_bytes, fresh = most_us, most_bytes, True
    while left and element < end:
        layer, first_part = left[0]
        rest = layer.parts - first_part
        parts = min(rest, layer.most_parts(left_us, left_bytes))
        if not parts:
            element, left_us, left_bytes = element + 1, most_us, most_bytes
            if fresh:  # it fits on none
                break
            fresh = True
            continue
        run = min(rest // parts, end - element) if fresh else 1
        own.append(Share(layer.name, element, run, first_part, parts))
        element += run - 1
        left_us -= layer.time_us(parts)
        left_bytes -= layer.held_bytes(parts)
        fresh = False
        left.popleft()
        if run * parts < rest:
            left.appendleft((layer, first_part + run * parts))
    return own
