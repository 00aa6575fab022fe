"""Results and progress as HTML, for Jupyter. Nothing here is loaded outside of a notebook, and
IPython is never installed for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from tuner.kernels import find_kernel
from tuner.records.candidate import cycles_unit

if TYPE_CHECKING:
    from tuner.jobs.job_result import TuneResult
    from tuner.records.trial import Job, Trial
    from tuner.search.loop import Progress

_EVERY_S = 0.5
"""Seconds between two updates: each is a message to the browser."""


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook, as Jupyter starts it."""
    shell = sys.modules.get("IPython")
    found = None if shell is None else shell.get_ipython()
    return found is not None and hasattr(found, "kernel")


def progress_display(job: Job) -> Callable[[Progress], None]:
    """Shows the progress of ``job`` below the cell, in place, with each call."""
    from importlib import import_module

    display: Any = import_module("IPython.display")
    shown = display.display(display.HTML(_head(job)), display_id=True)
    last = time.monotonic() - _EVERY_S

    def show(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _EVERY_S and progress.finished != progress.total:
            return
        last = now
        shown.update(display.HTML(progress_html(job, progress)))

    return show


def progress_html(job: Job, progress: Progress) -> str:
    """The progress of a running job: a bar, if its trials are limited, and a line."""
    best = progress.incumbent and progress.incumbent.measurement
    parts = [
        f"{progress.finished:,}"
        + (f" of {progress.total:,}" if progress.total else "")
        + " trials",
        f"best {best.cycles:,} {cycles_unit(best.fidelity)}" if best else "nothing valid yet",
        _outcomes(progress.outcomes),
    ]
    if progress.eta_s is not None:
        parts.append(f"{progress.eta_s:.0f} s to go")
    share = f' value="{progress.finished}" max="{progress.total}"' if progress.total else ""
    return f"{_head(job)}<progress{share}></progress> {escape(', '.join(filter(None, parts)))}"


def result_html(result: TuneResult) -> str:
    """A result as a table: what it is told against, and the best."""
    job, problem = result.job, result.job.spec.problem
    work = find_kernel(problem.workload.kernel).work(problem.workload.params)
    peak_cycles = work.peak_cycles(problem.target)
    marked = {
        "baseline": result.baseline,
        "default": result.default,
        "textbook": result.textbook,
        "best": result.best,
    }
    told = None if result.headline is None else result.headline.cycles
    rows = "".join(
        _row(name, trial, peak_cycles, told) for name, trial in marked.items() if trial is not None
    )
    best = None if result.best is None else result.best.measurement
    heads = (
        "",
        cycles_unit(best.fidelity) if best else "cycles",
        "packets",
        "HVX peak",
        "speed-up",
    )
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    lines = [
        f"job {job.id} {'stopped' if result.interrupted else job.state}: "
        + (job.note or _outcomes(result.outcomes))
    ]
    if result.headline is not None:
        lines.append(f"speed-up against: {result.headline.name}")
    if result.best is not None:
        lines.append(" ".join(f"{knob}={value}" for knob, value in result.best.config.items()))
    below = "".join(f"<div>{escape(line)}</div>" for line in lines)
    return f"{_head(job)}<table><tr>{head}</tr>{rows}</table>{below}"


def _head(job: Job) -> str:
    problem = job.spec.problem
    name = job.submission.kernel_label or problem.workload.kernel
    params = " ".join(f"{key}={value}" for key, value in problem.workload.params.items())
    label = f"{name} {params}, contract {problem.contract}, {problem.target.name}"
    return f"<div><b>{escape(label)}</b></div>"


def _row(name: str, trial: Trial, peak_cycles: float, told: int | None) -> str:
    found = trial.measurement
    if found is None:
        cells = [name, str(trial.outcome), "", "", ""]
    else:
        packets = "\N{EN DASH}" if found.packets is None else f"{found.packets:,}"
        speedup = "" if told is None else f"{told / found.cycles:.2f}x"
        cells = [name, f"{found.cycles:,}", packets, f"{peak_cycles / found.cycles:.1%}", speedup]
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _outcomes(outcomes: Mapping[str, int]) -> str:
    ranked = sorted(outcomes.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {outcome}" for outcome, count in ranked)
