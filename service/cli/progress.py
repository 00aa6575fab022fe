"""How a running job shows itself on standard error: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.cli.summary import outcomes_text

if TYPE_CHECKING:
    from tuner.search.loop import Progress

LINE_INTERVAL_S = 10.0

Show = Callable[["Progress"], None]


@contextmanager
def shown(label: str) -> Iterator[Show]:
    """Gives what :func:`tuner.run` calls with each progress of the job called ``label``."""
    if sys.stderr.isatty():
        with _bar(label) as show:
            yield show
    else:
        yield _lines(label)


def _incumbent(progress: Progress) -> str:
    trial = progress.incumbent
    if trial is None or trial.measurement is None:
        return "nothing valid yet"
    return f"best {trial.measurement.cycles:,} cycles"


def _seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def _bar(label: str) -> Iterator[Show]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as RichProgress

    from service.cli.output import console

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with RichProgress(*columns, console=console(stderr=True), transient=True) as rich:
        task = rich.add_task(label, total=None, state="starting")

        def show(progress: Progress) -> None:
            rich.update(
                task,
                completed=progress.finished,
                total=progress.total,
                state=_state(progress),
            )

        yield show


def _state(progress: Progress) -> str:
    """Best so far, outcomes, rate, time to go."""
    if not progress.finished:
        return "starting"
    parts = [_incumbent(progress), outcomes_text(progress.outcomes)]
    if progress.elapsed_s > 0:
        parts.append(f"{progress.finished / progress.elapsed_s:.1f}/s")
    if progress.eta_s is not None:
        parts.append(f"{_seconds(progress.eta_s)} to go")
    return ", ".join(parts)


def _lines(label: str) -> Show:
    last = time.monotonic() - LINE_INTERVAL_S

    def show(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < LINE_INTERVAL_S and progress.finished != progress.total:
            return
        last = now
        total = "" if progress.total is None else f"/{progress.total}"
        sys.stderr.write(f"{label}: {progress.finished}{total} trials, {_state(progress)}\n")
        sys.stderr.flush()

    return show
