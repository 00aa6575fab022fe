"""Pipelines that people write: textbook schedule, best of a small search, and share of the least.

Prints packets and cycles on the default target, contract static, caches warm, and the share of the
roofline that the best comes to: the least cycles in which the work of the pipeline can be done, see
:class:`tuner.kernels.kernel.WorkCounts`. A row below a tenth of it says why. It fails
if a pipeline is refused, its textbook schedule is not right, or a row is below a tenth without a
reason.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import tuner
from benchmarks.everyday.pipelines import PIPELINES, Everyday
from benchmarks.harness import Report, add_names, add_search_options, searched_with
from tuner.errors import UserError
from tuner.jobs.tuning import find_problem, keep_pipeline
from tuner.keeping.memory_store import MemoryStore
from tuner.measure.roofline import roofline_of
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.candidate import Measurement
from tuner.records.outcome import Outcome

LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Row:
    """What became of a pipeline; ``fault`` says what is wrong with it, if anything is."""

    name: str
    textbook: Measurement | None = None
    best: Measurement | None = None
    least_cycles: float = 0.0
    reason: str = ""
    fault: str = ""

    @property
    def share(self) -> float:
        """That of the roofline, of the best found."""
        return self.least_cycles / self.best.cycles if self.best else 0.0

    @property
    def faults(self) -> list[str]:
        """What the benchmark fails for."""
        is_slow = not self.fault and self.share < LEAST_SHARE and not self.reason
        return [
            *([self.fault] if self.fault else []),
            *([f"{self.share:.1%} of the roofline, and no reason is given"] if is_slow else []),
        ]

    @property
    def cells(self) -> tuple[Any, ...]:
        """Those of the table."""
        words = self.reason if self.share < LEAST_SHARE else ""
        counts = map(_counts, (self.textbook, self.best))
        return (self.name, *counts, self.least_cycles, self.share, "; ".join(self.faults) or words)


def _counts(one: Measurement | None) -> str:
    return f"{one.packets:,} / {one.cycles_text}" if one else "-"


def tuned(name: str, everyday: Everyday, **options: Any) -> Row:
    """The row of a pipeline after a search with these ``options``."""
    try:
        kernel = keep_pipeline(everyday.make())
        problem = find_problem(kernel, dict(everyday.sizes), DEFAULT_TARGET, "static")
        result = tuner.tune(kernel, everyday.sizes, store=MemoryStore(), **options)
    except UserError as error:
        return Row(name, fault=f"refused: {error}")
    textbook, best = result.textbook, result.best
    fault = "no textbook schedule"
    if textbook is not None:
        is_right = textbook.outcome is Outcome.OK
        fault = "" if is_right else f"textbook schedule: {textbook.outcome}, {textbook.error}"
    return Row(
        name,
        textbook.measurement if textbook else None,
        best.measurement if best else None,
        roofline_of(problem).cycles,
        everyday.reason,
        fault,
    )


def options(parser: argparse.ArgumentParser) -> None:
    """Which pipelines, and how they are searched."""
    add_names(parser, "NAME", PIPELINES)
    add_search_options(parser, trials=30)


def run(given: argparse.Namespace, report: Report) -> None:
    """Tunes the pipelines, and tells a row for each."""
    counts = dict.fromkeys(("textbook: packets / cycles", f"best of {given.trials}"), "")
    report.table({"pipeline": "", **counts, "roofline": ",.0f", "share": ".0%", "why": ""})
    for name in given.names:
        row = tuned(name, PIPELINES[name], **searched_with(given))
        report.row(*row.cells)
        for fault in row.faults:
            report.fault(f"{name}: {fault}")
