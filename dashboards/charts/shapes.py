"""A kernel's stored shapes with their shares of the peak: as grids that show the shapes never
tuned, where these are few, and else as a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from db.schedules.queries import StoredSchedule
from tuner.kernels import Kernel

STEPS = 5
MOST_VALUES = 24
LEAST_FILLED = 1 / 2
LEAST_SHAPES = 3
"""A grid that is emptier, or has fewer shapes, says less than a list."""


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


@dataclass(frozen=True)
class ShapeMap:
    """Grids, and the shapes that are in none, farthest from the peak first. ``same`` are the
    parameters that all shapes share; ``names`` are the others, in the kernel's order."""

    grids: tuple[Grid, ...] = ()
    listed: tuple[Cell, ...] = ()
    names: tuple[str, ...] = ()
    same: Mapping[str, int] | None = None


def shape_map(
    kernel: Kernel, found: Sequence[StoredSchedule], peaks: Mapping[str, float]
) -> ShapeMap:
    """The map of ``found``. ``peaks`` are cycles at the peak by public id.

    The axes are the two extents that leave the fewest grids. Shapes whose grid would be small or
    almost empty are listed.
    """
    best: dict[tuple[int, ...], Cell] = {}
    for each in found:
        params = dict(each.problem.workload.params)
        peak = peaks.get(each.row.public_id)
        share = peak / each.row.cycles if peak else None
        place = tuple(params.values())
        if place not in best or each.row.cycles < (best[place].cycles or 0):
            best[place] = Cell(params, share, each.row.cycles, each.row.public_id)
    cells = list(best.values())
    if not cells:
        return ShapeMap()
    values = {name: {cell.params.get(name) for cell in cells} for name in cells[0].params}
    same = {name: cells[0].params[name] for name, found in values.items() if len(found) == 1}
    names = tuple(name for name in cells[0].params if name not in same)
    grids, listed = _divided(kernel, cells, names)
    listed.sort(key=lambda cell: (cell.share is None, cell.share or 0.0))
    return ShapeMap(tuple(grids), tuple(listed), names, same)


def _divided(
    kernel: Kernel, cells: Sequence[Cell], names: Sequence[str]
) -> tuple[list[Grid], list[Cell]]:
    extents = [param.name for param in kernel.params if param.is_extent]
    if len(extents) < 2:
        return [], list(cells)
    down, across = min(combinations(extents, 2), key=lambda pair: len(_groups(cells, pair)))
    groups = _groups(cells, (down, across))
    rows, columns = (_values(cells, name) for name in (down, across))
    # With the values of all, a shape tuned in one grid shows as missing in another.
    common = len(cells) >= LEAST_FILLED * len(groups) * len(rows) * len(columns)
    grids, listed = [], []
    for group in groups.values():
        if not common:
            rows, columns = (_values(group, name) for name in (down, across))
        few = len(group) < min(LEAST_SHAPES, len(cells)) and not common
        if few or len(group) < LEAST_FILLED * len(rows) * len(columns):
            listed.extend(group)
            continue
        others = [name for name in names if name not in (down, across)]
        title = " ".join(f"{name}={group[0].params[name]}" for name in others)
        grids.append(_grid(title, (down, rows), (across, columns), group))
    return sorted(grids, key=lambda grid: grid.title), listed


def _groups(cells: Sequence[Cell], axes: tuple[str, str]) -> dict[tuple[int, ...], list[Cell]]:
    groups: dict[tuple[int, ...], list[Cell]] = {}
    for cell in cells:
        rest = tuple(value for name, value in cell.params.items() if name not in axes)
        groups.setdefault(rest, []).append(cell)
    return groups


def _values(cells: Sequence[Cell], name: str) -> tuple[int, ...]:
    return tuple(sorted({cell.params[name] for cell in cells}))[:MOST_VALUES]


def _grid(
    title: str,
    down_values: tuple[str, Sequence[int]],
    across_values: tuple[str, tuple[int, ...]],
    group: Sequence[Cell],
) -> Grid:
    (down, rows), (across, columns) = down_values, across_values
    tuned = {(cell.params[down], cell.params[across]): cell for cell in group}

    def cell(row: int, column: int) -> Cell:
        never = Cell({**group[0].params, down: row, across: column})
        return tuned.get((row, column), never)

    return Grid(
        title,
        down,
        across,
        columns,
        tuple((row, tuple(cell(row, column) for column in columns)) for row in rows),
    )
