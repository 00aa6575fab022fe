"""Grids of a kernel's stored shapes with their shares of the peak, and of those never tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from db.schedules.queries import StoredSchedule
from tuner.kernels import Kernel

STEPS = 5
MOST_VALUES = 24


@dataclass(frozen=True)
class Cell:
    """A shape of the grid. Without ``cycles`` it was never tuned; ``params`` are its workload."""

    params: Mapping[str, int]
    share: float | None = None
    cycles: int | None = None
    public_id: str = ""

    @property
    def step(self) -> int:
        """The shade, from 0 to :data:`STEPS`."""
        return 0 if self.share is None else min(STEPS, int(self.share * (STEPS + 1)))


@dataclass(frozen=True)
class Grid:
    """Shapes with the same other parameters: rows of ``down`` over columns of ``across``."""

    title: str
    down: str
    across: str
    columns: tuple[int, ...]
    rows: tuple[tuple[int, tuple[Cell, ...]], ...]


def shape_grids(
    kernel: Kernel, found: Sequence[StoredSchedule], peaks: Mapping[str, float]
) -> list[Grid]:
    """A grid for each combination of the parameters other than the first two extents. ``peaks``
    are cycles at the peak by public id."""
    extents = [param.name for param in kernel.params if param.is_extent]
    if len(extents) < 2 or not found:
        return []
    down, across = extents[:2]
    groups: dict[str, list[StoredSchedule]] = {}
    for each in found:
        params = each.problem.workload.params
        rest = " ".join(f"{k}={v}" for k, v in params.items() if k not in (down, across))
        groups.setdefault(rest, []).append(each)
    # Each grid has the values of all, so that a shape tuned in one shows as missing in another.
    rows, columns = (
        tuple(sorted({each.problem.workload.params[name] for each in found}))[:MOST_VALUES]
        for name in (down, across)
    )
    return [
        _grid(rest, (down, rows), (across, columns), group, peaks)
        for rest, group in sorted(groups.items())
    ]


def _grid(
    title: str,
    down_values: tuple[str, Sequence[int]],
    across_values: tuple[str, tuple[int, ...]],
    group: Sequence[StoredSchedule],
    peaks: Mapping[str, float],
) -> Grid:
    (down, rows), (across, columns) = down_values, across_values
    best: dict[tuple[int, int], StoredSchedule] = {}
    for each in group:
        params = each.problem.workload.params
        place = (params[down], params[across])
        if place not in best or each.row.cycles < best[place].row.cycles:
            best[place] = each
    base = group[0].problem.workload.params

    def cell(row: int, column: int) -> Cell:
        each = best.get((row, column))
        params = {**base, down: row, across: column}
        if each is None:
            return Cell(params)
        peak = peaks.get(each.row.public_id)
        share = peak / each.row.cycles if peak else None
        return Cell(params, share, each.row.cycles, each.row.public_id)

    return Grid(
        title,
        down,
        across,
        columns,
        tuple((row, tuple(cell(row, column) for column in columns)) for row in rows),
    )
