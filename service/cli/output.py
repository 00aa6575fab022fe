"""Output of commands: JSON for programs, tables for people."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from tuner.plain_text import plain_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WIDTH_WITHOUT_TERMINAL = 80
"""Columns of tables in a file or a pipe, unless ``COLUMNS`` says otherwise."""
_GAP = 3
"""Columns between the columns of a table."""
_NARROWEST_TEXT = 20
"""A column of sentences is not folded to less: the row becomes a list of its cells first."""
_INDENT = "  "
_BETWEEN = "   "


def print_json(value: Any) -> None:
    """``value`` as indented JSON on standard output."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def width() -> int:
    """The columns that a line may take: ``COLUMNS``, else those of the terminal, else
    :data:`WIDTH_WITHOUT_TERMINAL`."""
    return get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns


def console(*, stderr: bool = False) -> Console:
    """A Rich console on standard output or standard error. Rich obeys ``NO_COLOR``."""
    from rich.console import Console

    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(
        stderr=stderr,
        width=None if terminal else width(),
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not terminal,
    )


def print_line(text: str = "") -> None:
    """A line on standard output, not folded: it can be copied whole."""
    sys.stdout.write(plain_lines(text) + "\n")


def sentence(text: str, indent: str = "") -> str:
    """``text`` in lines, folded between words to the width of the terminal."""
    return "\n".join(_folded(text, indent, " " * len(indent) + _INDENT))


def print_sentence(text: str, indent: str = "") -> None:
    """:func:`sentence` on standard output."""
    print_line(sentence(text, indent))


def print_command(lead: str, command: str) -> None:
    """A command to copy, behind ``lead``: where it is folded, a shell reads on."""
    print_line(" \\\n".join(_folded(command, lead, 2 * _INDENT, spare=len(" \\"))))


def time_text(at: float | None, otherwise: str = "") -> str:
    """A Unix time in the local zone, to the minute; ``otherwise`` without one."""
    return otherwise if at is None else datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, numeric: Sequence[str] = ()
) -> None:
    """:func:`table` on standard output."""
    console().print(table(columns, rows, numeric=numeric))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, numeric: Sequence[str] = ()
) -> RenderableType:
    """A table that fits the terminal. Columns named in ``numeric`` are aligned to the right.

    Where room is short, cells are folded between words. Nothing is ever cut: where the words
    themselves have no room side by side, each row is a list of its cells, which begins in the line
    of the first one: `hvxtune jobs | grep failed` finds the job.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    texts = [["" if cell is None else plain_lines(str(cell)) for cell in row] for row in rows]
    widths = _widths(columns, texts, numeric)
    if widths is None:
        return Text("\n".join(line for row in texts for line in _listed(columns, row, numeric)))
    whole = sum(widths) + _GAP * (len(widths) - 1)  # Rich would cut what is wider than the console
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, width=whole)
    for name, columns_wide in zip(columns, widths, strict=True):
        made.add_column(name, justify="right" if name in numeric else "left", width=columns_wide)
    for row in texts:
        made.add_row(*map(Text, row))
    return made


def _widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[str]
) -> list[int] | None:
    """Of each column, so that no word is broken; ``None`` if they do not fit."""
    cells = [[name, *(row[place] for row in rows)] for place, name in enumerate(columns)]
    wanted = [max(_cells(line) for text in column for line in text.split("\n")) for column in cells]
    words = [
        max((_cells(w) for text in column for w in text.split()), default=0) for column in cells
    ]
    least = [
        whole if name in numeric else max(word, min(whole, _NARROWEST_TEXT))
        for name, whole, word in zip(columns, wanted, words, strict=True)
    ]
    room = width() - _GAP * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(wanted) > room:  # the widest gives way first
        _, place = max((w, place) for place, w in enumerate(wanted) if w > least[place])
        wanted[place] -= 1
    return wanted


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _listed(columns: Sequence[str], row: Sequence[str], numeric: Sequence[str]) -> list[str]:
    """A row as lines: its first cell, and behind and below it the others that say something. Where
    the first column has no name, the second, unless it is a figure, belongs to it."""
    heads = 1 if columns[0] or columns[1] in numeric else 2
    items = [f"{name}: {text}" for name, text in zip(columns, row, strict=True) if text]
    lines, line = [], " ".join(filter(None, row[:heads]))
    for item in items[sum(map(bool, row[:heads])) :]:
        if line.strip() and _cells(line) + len(_BETWEEN) + _cells(item) <= width():
            line += _BETWEEN + item
            continue
        lines += [line] * bool(line.strip())
        *folded, line = _folded(item, _INDENT, 2 * _INDENT)
        lines += folded
    return [*lines, *([line] * bool(line.strip()))]


def _folded(text: str, first: str, following: str, spare: int = 0) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        width() - spare,
        initial_indent=first,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first]
