"""Output of commands: JSON for programs, tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_WITHOUT_TERMINAL = 160
"""Columns of tables in a file or a pipe, so that nothing is folded to 80."""


def print_json(value: Any) -> None:
    """``value`` as indented JSON on standard output."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def console(*, stderr: bool = False) -> Console:
    """A Rich console on standard output or standard error."""
    from rich.console import Console

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(
        stderr=stderr,
        width=None if terminal else WIDTH_WITHOUT_TERMINAL,
        highlight=False,
        soft_wrap=not terminal,
    )


def print_line(text: str = "") -> None:
    """A line on standard output, not folded."""
    sys.stdout.write(text + "\n")


def time_text(at: float | None, otherwise: str = "") -> str:
    """A Unix time in the local zone, to the minute; ``otherwise`` without one."""
    return otherwise if at is None else datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, numeric: Sequence[str] = ()
) -> None:
    """A table on standard output. Columns named in ``numeric`` are aligned to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(
            name, justify="right" if name in numeric else "left", no_wrap=name in numeric
        )
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    console().print(table)
