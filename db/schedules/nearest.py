"""Which stored workloads have a shape near a given one.

The shapes of a kernel are kept in memory as one array: workloads never change, so only those that
came since the last look are read. Ordering a million of them takes milliseconds this way, and SQL
has no index that could.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from db.database import Database
from db.models import WorkloadRow
from tuner.problem.workload import Workload

_BATCH = 64
_PAGE = 50_000


@dataclass
class _Shapes:
    """All workloads of one version of a kernel: logarithms of their extents, a row for each
    extent, which is added up five times as fast as one for each workload."""

    last_id: int = 0
    logs: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    workloads: list[tuple[str, Mapping[str, int]]] = field(default_factory=list)


@dataclass(frozen=True)
class Neighbour:
    """A stored workload and how far it is: see :func:`distance`."""

    workload: Workload
    distance: float
    digest: str
    """The workload's, which to compute for each would take longer than to find it."""


def distance(one: Sequence[int], other: Sequence[int]) -> float:
    """The Euclidean length of the base-2 logarithms of the ratios of extents: 1 where one extent
    is doubled or halved, 0 for the same shape."""
    return float(np.sqrt(np.sum((_logs([one]) - _logs([other])) ** 2)))


def _logs(shapes: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    return np.log2(np.maximum(np.asarray(shapes, dtype=np.float64), 1.0))


class NearestWorkloads:
    """Finds neighbours among the workloads of a database. Safe from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._shapes: dict[tuple[str, int, str], _Shapes] = {}

    def near(
        self, workload: Workload, extents: Sequence[str], limit: int, *, looked: bool = False
    ) -> Iterator[Neighbour]:
        """The ``limit`` nearest other stored workloads of the kernel, nearest first.

        ``extents`` are the names of the parameters that are a shape; of two shapes as near, the
        one with more of the other parameters equal comes first. ``looked`` says that nothing was
        stored since the last call for this kernel: the database is not asked again.
        """
        with self._lock:
            shapes = self._current(workload, extents, looked=looked)
            logs, workloads = shapes.logs, shapes.workloads  # which only grows, behind these logs
        if not workloads:
            return
        distances = np.zeros(logs.shape[1])
        for column, log in zip(
            logs, _logs([[workload.params[name] for name in extents]])[0], strict=True
        ):
            distances += (column - log) ** 2
        order = _smallest(distances, limit + 1)  # itself may be one of them
        for start in range(0, len(order), _BATCH):
            numbers = order[start : start + _BATCH]
            batch = [
                Neighbour(replace(workload, params=params), far, digest)
                for far, (digest, params) in zip(
                    np.round(np.sqrt(distances[numbers]), 4).tolist(),
                    [workloads[number] for number in numbers.tolist()],
                    strict=True,
                )
                if digest != workload.digest
            ]
            if len({n.distance for n in batch}) < len(batch):
                batch.sort(key=lambda n: (n.distance, _differing(n.workload, workload)))
            yield from batch

    def _current(self, workload: Workload, extents: Sequence[str], *, looked: bool) -> _Shapes:
        key = (workload.kernel, workload.version, workload.source)
        if looked and key in self._shapes:
            return self._shapes[key]
        shapes = self._shapes.setdefault(key, _Shapes())
        wanted = (
            select(WorkloadRow.id, WorkloadRow.digest, WorkloadRow.params)
            .where(WorkloadRow.kernel == workload.kernel, WorkloadRow.version == workload.version)
            .where(WorkloadRow.source == workload.source)
            .order_by(WorkloadRow.id)
            .limit(_PAGE)
        )
        while True:
            with self._database.reading() as session:
                rows = session.execute(wanted.where(WorkloadRow.id > shapes.last_id)).all()
            if not rows:
                return shapes
            new = [(row.digest, row.params) for row in rows]
            logs = _logs([[params[name] for name in extents] for _, params in new]).T
            shapes.workloads.extend(new)
            shapes.logs = np.ascontiguousarray(
                logs if shapes.last_id == 0 else np.hstack([shapes.logs, logs])
            )
            shapes.last_id = rows[-1].id


def _smallest(distances: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Where the ``count`` smallest are, in order: to sort all of them would take ten times as
    long."""
    if count < len(distances):
        chosen = np.sort(np.argpartition(distances, count)[:count])
        return chosen[np.argsort(distances[chosen], kind="stable")]
    return np.argsort(distances, kind="stable")


def _differing(one: Workload, other: Workload) -> int:
    names = {*one.params, *other.params}  # optional ones are not in all
    return sum(one.params.get(name) != other.params.get(name) for name in names)
