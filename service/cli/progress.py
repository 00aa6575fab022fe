"""How running jobs and the set-up show themselves on standard error: a bar on a terminal that can
draw, lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.cli.summary import outcomes_text, reached_text

if TYPE_CHECKING:
    from tuner.search.loop import Progress

LINE_INTERVAL_S = 10.0
_CANNOT_DRAW = ("dumb", "unknown")
"""Kinds of terminal (``TERM``) that a bar cannot move on."""


@dataclass(frozen=True)
class JobProgress:
    """The progress of a job, wherever it runs."""

    finished: int
    total: int | None
    outcomes: Mapping[str, int]
    best_cycles: int | None
    elapsed_s: float
    eta_s: float | None
    reached: str | None = None
    """``98 % of the optimum expected in this space``, if that is known."""
    on_front: int | None = None
    """Trials on the Pareto front of a job with several objectives."""
    waits: str = ""
    """Why nobody works on it, if that is so."""
    promoted: int = 0
    promotions: int = 0
    """How many of the most promising trials have been measured again, and how many will be at
    most."""


Show = Callable[[JobProgress], None]


@contextmanager
def shown(label: str) -> Iterator[Show]:
    """Yields a function to call with each progress of the job called ``label``."""
    if _can_draw():
        with _bar(label) as show:
            yield show
    else:
        yield _lines(label)


def _can_draw() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in _CANNOT_DRAW


QUIET_S = 2.0
"""Shorter work shows nothing."""
EVERY_S = 2.0


def _of(done: int, total: int) -> str:
    return f"{done}/{total}"


@contextmanager
def counted(
    label: str, text: Callable[[int, int], str] = _of
) -> Iterator[Callable[[int, int], None]]:
    """Yields a function of what is done and all there is to do, which ``text`` puts in words. On a
    terminal one line changes, elsewhere lines follow each other."""
    terminal = sys.stderr.isatty()
    next_at = time.monotonic() + QUIET_S

    def show(done: int, total: int) -> None:
        nonlocal next_at
        now = time.monotonic()
        if now < next_at:
            return
        next_at = now + (EVERY_S / 10 if terminal else EVERY_S)
        line = f"{label}: {text(done, total)}"
        sys.stderr.write(f"\r\x1b[K{line}" if terminal else f"{line}\n")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class StepLines:
    """A line for each step, and below it how much of its download has come."""

    def begin(self, step: str) -> None:
        """``step`` begins."""
        self.end()
        sys.stderr.write(f"{step}\n")
        sys.stderr.flush()

    def reached(self, percent: float) -> None:
        """``percent`` of the step's download have come."""
        if _can_draw():
            sys.stderr.write(f"\r{percent:5.0f} %")
            sys.stderr.flush()

    def end(self) -> None:
        """The last step has ended, or failed."""
        if _can_draw():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def job_progress(progress: Progress) -> JobProgress:
    """The progress of a job that runs in this process."""
    trial = progress.incumbent
    measured = None if trial is None else trial.measurement
    return JobProgress(
        finished=progress.finished,
        total=progress.total,
        outcomes=progress.outcomes,
        best_cycles=None if measured is None else measured.cycles,
        elapsed_s=progress.elapsed_s,
        eta_s=progress.eta_s,
        reached=reached_text(progress.remaining),
        on_front=progress.on_front,
        promoted=progress.promoted,
        promotions=progress.promotions,
    )


def _incumbent(progress: JobProgress) -> str:
    if progress.best_cycles is None:
        return "nothing valid yet"
    return f"best {progress.best_cycles:,} cycles"


def _seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def _bar(label: str) -> Iterator[Show]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as RichProgress
    from rich.table import Column

    from service.cli.output import console

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        # Where room is short, this is cut off, and not the bar.
        TextColumn("{task.fields[state]}", table_column=Column(ratio=1, no_wrap=True)),
    )
    terminal = console(stderr=True)
    with RichProgress(*columns, console=terminal, transient=True, expand=True) as rich:
        task = rich.add_task(label, total=None, state="starting")
        promoted = rich.add_task("promoted", total=None, state="", visible=False)

        def show(progress: JobProgress) -> None:
            rich.update(
                task,
                completed=progress.finished,
                total=progress.total,
                state=_state(progress),
            )
            rich.update(
                promoted,
                completed=progress.promoted,
                total=progress.promotions,
                visible=progress.promotions > 0,
            )

        yield show


def _state(progress: JobProgress) -> str:
    """Best so far, time to go, how much is left, outcomes, rate: the last are cut off first."""
    if progress.waits:
        return f"waits: {progress.waits}"
    if not progress.finished:
        return "starting"
    parts = [_incumbent(progress)]
    if progress.on_front is not None:
        parts.append(f"{progress.on_front} on the front")
    if progress.eta_s is not None:
        parts.append(f"{_seconds(progress.eta_s)} to go")
    if progress.reached is not None:
        parts.append(progress.reached)
    parts.append(outcomes_text(progress.outcomes))
    if progress.elapsed_s > 0:
        parts.append(f"{progress.finished / progress.elapsed_s:.1f}/s")
    return ", ".join(parts)


def _lines(label: str) -> Show:
    last = time.monotonic() - LINE_INTERVAL_S
    waited_for = ""

    def show(progress: JobProgress) -> None:
        nonlocal last, waited_for
        now = time.monotonic()
        is_news = progress.finished == progress.total or progress.waits != waited_for
        if now - last < LINE_INTERVAL_S and not is_news:
            return
        last, waited_for = now, progress.waits
        total = "" if progress.total is None else f"/{progress.total}"
        parts = [f"{progress.finished}{total} trials", _state(progress)]
        if progress.promotions:
            parts.append(f"{progress.promoted}/{progress.promotions} promoted")
        sys.stderr.write(f"{label}: {', '.join(parts)}\n")
        sys.stderr.flush()

    return show
