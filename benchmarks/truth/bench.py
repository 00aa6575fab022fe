"""Holds the timing model against what others measured on real chips.

Every public figure whose code can be rebuilt is compiled, simulated, checked and printed beside the
chip's: the tables of docs/truth.md. It fails if a goal is missed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.harness import Report, add_names
from benchmarks.truth.families import (
    BARS,
    DDR,
    FAMILIES,
    GOALS,
    ISSUE,
    NEIGHBOURS_GHZ,
    Bar,
    Comparison,
    Line,
)
from benchmarks.truth.figures import Figure, read_figures
from benchmarks.truth.programs import Chain

TARGET = "hexagon-v66"
"""The model's own arch; what the sources compiled was v68 and newer."""


COLUMNS = {"what": "", "device": "", "silicon": "s", "model": ".4g", "ratio": ".2f", "source": ""}
SUMMARY = {"family": "", "model / silicon": "", "bar": ".0%", "lines within": "", "tau": ".2f"}
PUBLISHED = dict.fromkeys(("figures", "as published", "source", "not simulated"), "")


def cells(line: Line) -> tuple[Any, ...]:
    """The row of a figure."""
    remark = f"; {line.remark}" if line.remark else ""
    silicon = f"{line.silicon:.4g} {line.unit}"
    return (line.what, line.device, silicon, line.model, line.ratio, f"{line.source}{remark}")


def summary(family: str, lines: Sequence[Line], tau: float | None) -> tuple[Any, ...]:
    """One row: how far a family's lines are off, its tau, and whether that meets its goal."""
    ratios = sorted(line.ratio for line in lines)
    bar = BARS[family]
    within = f"{sum(keeps(bar, line) for line in lines)} of {len(lines)}"
    return (family, f"{ratios[0]:.2f} to {ratios[-1]:.2f}", bar.off, within, tau)


def keeps(bar: Bar, line: Line) -> bool:
    """Whether ``line`` is within ``bar``."""
    return abs(line.ratio - 1) <= bar.off


def is_met(family: str, lines: Sequence[Line], tau: float | None) -> bool:
    """Whether a family keeps its goal, but for lines that say why they do not."""
    bar = BARS[family]
    return (
        all(keeps(bar, line) or line.remark for line in lines)
        and tau is not None
        and tau >= bar.tau
    )


def published(figures: Iterable[Figure]) -> Iterator[tuple[str, ...]]:
    """Rows of all figures as their sources print them, and which are not simulated."""
    groups: dict[tuple[str, ...], list[Figure]] = {}
    for one in figures:
        threads = "" if one.family in (ISSUE, DDR) else f", threads: {one.tasks}"
        title = f"{one.operation}{threads} ({one.unit})"
        groups.setdefault((title, one.not_simulated), []).append(one)
    for (title, why), own in groups.items():
        by_device = own[0].family in (ISSUE, DDR)
        values = [f"{one.device if by_device else one.count}: {one.printed}" for one in own]
        whose = "" if by_device else f"{own[0].device}; "
        sources = ", ".join(dict.fromkeys(one.source for one in own))
        yield (title, f"{whose}{', '.join(values)}", sources, why)


def rows_of(report: Report, columns: Mapping[str, str], title: str, rows: Iterable[Any]) -> None:
    """Tells a whole table."""
    report.table(columns, title)
    for row in rows:
        report.row(*row)


def options(parser: argparse.ArgumentParser) -> None:
    """Which families, on which target."""
    add_names(parser, "FAMILY", FAMILIES)
    parser.add_argument("--target", default=TARGET)


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells the tables."""
    figures = read_figures()
    summaries = []
    with Chain(given.target) as chain:
        compared = Comparison(figures, chain)
        for family in given.names:
            lines, tau = compared.lines(family), compared.tau(family)
            rows_of(report, COLUMNS, f"{family[0].upper()}{family[1:]}", map(cells, lines))
            summaries.append(summary(family, lines, tau))
            if family in GOALS and not is_met(family, lines, tau):
                report.fault(f"goal missed: {family}")
        rows_of(report, PUBLISHED, "The figures", published(figures))
        rows_of(report, SUMMARY, "In short", summaries)
        clock = compared.clock_ghz
    low, high = (clock / ghz for ghz in reversed(NEIGHBOURS_GHZ))
    report.remark(
        f"The ladder inside L2 implies a clock of {clock:.3f} GHz. "
        f"At {NEIGHBOURS_GHZ[0]} to {NEIGHBOURS_GHZ[1]} GHz, ratios of nanoseconds\n"
        f"would be {low:.2f} to {high:.2f} times those shown."
    )
