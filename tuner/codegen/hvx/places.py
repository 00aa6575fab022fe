"""What expressions come to at each place of an output, where no input is read."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tuner.codegen.hvx.plan import RefusedError
from tuner.program.expressions import Expr, Load, Select, Variable, ordered
from tuner.program.loops import Program
from tuner.program.meanings import Array, value_of

_MOST_PLACES = 1 << 22
"""Of an expression."""


class Places:
    """The values of expressions at all places of a stage's output, each over the axes that it
    depends on; the last ``inner`` axes are a row."""

    def __init__(self, program: Program, shape: Sequence[int], inner: int) -> None:
        self.shape, self.inner = tuple(shape), inner
        (stage,) = program.stages
        rank = len(shape)
        self._axes = {
            one: np.arange(extent, dtype=np.int32).reshape(
                [-1 if n == m else 1 for m in range(rank)]
            )
            for n, (one, extent) in enumerate(zip(stage.places, shape, strict=True))
        }
        self._tables = {
            one.name: np.array(one.elements, one.type.dtype).reshape(one.extents)
            for one in program.tables
        }
        self._known: dict[Expr, Array | None] = {}

    def of(self, root: Expr) -> Array | None:
        """Those of ``root``, of as many dimensions as the output; ``None`` if it reads inputs."""
        for node in ordered((root,)):
            if node not in self._known:
                self._known[node] = self._made(node)
        return self._known[root]

    def _made(self, node: Expr) -> Array | None:
        parts = [self._known[part] for part in node.parts]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        if isinstance(node, Variable):
            return self._axes.get(node)
        if prod(np.broadcast_shapes(*(part.shape for part in known))) > _MOST_PLACES:
            raise RefusedError("what it has at each place is too much to look at")
        if isinstance(node, Load):
            table = self._tables.get(node.source)
            return None if table is None else table[tuple(np.broadcast_arrays(*known))]
        return np.broadcast_to(value_of(node, *known), self._whole(known))

    def _whole(self, known: Sequence[Array]) -> tuple[int, ...]:
        return np.broadcast_shapes((1,) * len(self.shape), *(part.shape for part in known))

    @property
    def width(self) -> int:
        """Lanes of a row."""
        return prod(self.shape[len(self.shape) - self.inner :])

    def is_of_rows(self, values: Array) -> bool:
        """Whether lanes of a row are alike."""
        return prod(values.shape[len(values.shape) - self.inner :]) == 1

    def is_of_lanes(self, values: Array) -> bool:
        """Whether rows are alike."""
        return prod(values.shape[: len(values.shape) - self.inner]) == 1

    def along(self, values: Array) -> Array:
        """What is of lanes, for each lane."""
        own = self.shape[len(self.shape) - self.inner :]
        return np.broadcast_to(values.reshape(values.shape[-self.inner :]), own).reshape(-1)

    def down(self, values: Array) -> Array:
        """What is of rows, over the outer axes."""
        return values.reshape(values.shape[: len(values.shape) - self.inner])

    def split(self, values: Array) -> tuple[Array, Array]:
        """``values`` as a sum of what is of rows and what is of lanes."""
        wide = rows = values.astype(np.int64)
        outer = wide.ndim - self.inner
        for axis in range(outer, wide.ndim):
            rows = rows.take([0], axis)
        lanes = wide - rows
        for axis in range(outer):
            lanes = lanes.take([0], axis)
        if np.any(wide != rows + lanes):
            raise RefusedError("places that it reads depend on rows and columns together")
        return self.down(rows), self.along(lanes)


def cared(root: Expr, places: Places) -> dict[Load, Array]:
    """Where in a row each load of inputs counts: not where another is chosen."""
    seen = dict[Expr, Array]()
    waiting = [(root, np.ones(places.width, bool))]
    while waiting:
        node, lanes = waiting.pop()
        if places.of(node) is not None:
            continue
        lanes = lanes | seen[node] if node in seen else lanes
        if node in seen and np.array_equal(lanes, seen[node]):
            continue
        seen[node] = lanes
        condition = places.of(node.condition) if isinstance(node, Select) else None
        if isinstance(node, Select) and condition is not None and places.is_of_lanes(condition):
            holds = places.along(condition)
            waiting += [(node.chosen, lanes & holds), (node.otherwise, lanes & ~holds)]
        elif not isinstance(node, Load):
            waiting += [(part, lanes) for part in node.parts]
    return {node: lanes for node, lanes in seen.items() if isinstance(node, Load) and lanes.any()}
