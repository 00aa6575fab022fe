"""What others have measured on silicon: ``benchmarks/silicon/public_figures.csv``.

A row is one public figure. ``operation`` and ``count`` say what was timed, ``tasks`` by how many
threads at once, ``value`` and ``unit`` the result, ``source`` where it was published.
``not_simulated`` says why this chain cannot run it, and is empty where it can. ``remark`` says why
the model cannot reach a figure; such a row does not count for its family's goal.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import UserError

PUBLISHED = Path(__file__).parents[1] / "silicon" / "public_figures.csv"
_NEEDED = ("family", "device", "operation", "count", "tasks", "value", "unit", "source")


@dataclass(frozen=True)
class Figure:
    """One row. ``printed`` is the value as its source prints it."""

    family: str
    device: str
    operation: str
    count: int
    tasks: int
    value: float
    printed: str
    unit: str
    source: str
    not_simulated: str
    remark: str


def read_figures(path: Path = PUBLISHED) -> list[Figure]:
    """All rows of ``path``; ``UserError`` names the line of one that cannot be used."""
    with path.open(newline="") as lines:
        rows = csv.DictReader(lines)
        return [_figure(row, f"{path.name}, line {rows.line_num}") for row in rows]


def _figure(row: dict[str, str | None], place: str) -> Figure:
    cells = {name: (cell or "").strip() for name, cell in row.items() if name}
    if not cells.get("source"):
        raise UserError(
            f"a silicon row without a source ({place})",
            accepted="figures that anybody can look up",
            next_step="say in the column source where it was published, or take the row out",
        )
    missing = [name for name in _NEEDED if not cells.get(name)]
    if missing:
        raise UserError(f"a silicon row without {missing[0]} ({place})")
    try:
        value = float(cells["value"])
        count, tasks = int(cells["count"]), int(cells["tasks"])
        if not (math.isfinite(value) and value > 0 and count > 0 and tasks > 0):
            raise ValueError
    except ValueError:
        raise UserError(
            f"count {cells['count']}, tasks {cells['tasks']}, value {cells['value']} ({place})",
            accepted="numbers above 0",
        ) from None
    return Figure(
        cells["family"],
        cells["device"],
        cells["operation"],
        count,
        tasks,
        value,
        cells["value"],
        cells["unit"],
        cells["source"],
        cells.get("not_simulated", ""),
        cells.get("remark", ""),
    )
