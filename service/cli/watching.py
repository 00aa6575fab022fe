"""Lists that are shown again as they change: ``--watch``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.output import console
from tuner.errors import UserError

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERY_S = 2.0

Watch = Annotated[
    bool, typer.Option("--watch", help="Show it again as it changes, until Ctrl-C (status 0).")
]


def refuse_json(as_json: bool) -> None:
    """``UserError`` for ``--watch`` with ``--json``, which is one object."""
    if as_json:
        raise UserError("--watch with --json", next_step="leave one out")


def shown_until_stopped(draw: Callable[[], RenderableType]) -> None:
    """Shows what ``draw`` gives every :data:`EVERY_S` seconds until Ctrl-C: in place on a terminal,
    which it leaves as it was; elsewhere one below the other whenever it has changed.
    """
    try:
        if sys.stdout.isatty():
            _in_place(draw)
        else:
            _one_below_the_other(draw)
    except KeyboardInterrupt:
        return


def _in_place(draw: Callable[[], RenderableType]) -> None:
    from rich.live import Live

    first = draw()  # before the screen is taken: an error stays readable
    with Live(first, console=console(), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(EVERY_S)
            live.update(draw(), refresh=True)


def _one_below_the_other(draw: Callable[[], RenderableType]) -> None:
    screen, last = console(), ""
    while True:
        with screen.capture() as captured:
            screen.print(draw())
        if captured.get() != last:
            sys.stdout.write(("\n" if last else "") + captured.get())
            sys.stdout.flush()
            last = captured.get()
        time.sleep(EVERY_S)
