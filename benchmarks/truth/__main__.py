"""Holds the timing model against what others measured on real chips.

    python -m benchmarks.truth [--target hexagon-v66] [FAMILY ...]

Every public figure whose code can be rebuilt is compiled, simulated, checked and printed beside the
chip's: the tables of docs/truth.md. The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence

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
from tuner.errors import HvxtuneError

TARGET = "hexagon-v66"
"""The model's own arch; what the sources compiled was v68 and newer."""


def table(lines: Iterable[Line]) -> Iterator[str]:
    """Markdown: one row for each line."""
    yield "| what | device | silicon | model | ratio | source |"
    yield "| --- | --- | ---: | ---: | ---: | --- |"
    for line in lines:
        remark = f"; {line.remark}" if line.remark else ""
        yield (
            f"| {line.what} | {line.device} | {line.silicon:.4g} {line.unit} | {line.model:.4g} "
            f"| {line.ratio:.2f} | {line.source}{remark} |"
        )


def summary(family: str, lines: Sequence[Line], tau: float | None) -> str:
    """One row: how far a family's lines are off, its tau, and whether that meets its goal."""
    ratios = sorted(line.ratio for line in lines)
    bar = BARS[family]
    shown = "none" if tau is None else f"{tau:.2f}"
    return (
        f"| {family} | {ratios[0]:.2f} to {ratios[-1]:.2f} | {bar.off:.0%} | "
        f"{sum(keeps(bar, line) for line in lines)} of {len(lines)} | {shown} |"
    )


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


def published(figures: Iterable[Figure]) -> Iterator[str]:
    """Markdown: all figures as their sources print them, and which are not simulated."""
    yield "| figures | as published | source | not simulated |"
    yield "| --- | --- | --- | --- |"
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
        yield f"| {title} | {whose}{', '.join(values)} | {sources} | {why} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--target", default=TARGET)
    given = parser.parse_args(arguments)
    unknown = set(given.families) - set(FAMILIES)
    if unknown:
        parser.error(f"unknown family '{min(unknown)}'; known are {', '.join(FAMILIES)}")
    try:
        return _compare(given.families or FAMILIES, given.target)
    except HvxtuneError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _compare(families: Sequence[str], target: str) -> int:
    figures = read_figures()
    rows, missed = [], []
    with Chain(target) as chain:
        compared = Comparison(figures, chain)
        for family in families:
            lines, tau = compared.lines(family), compared.tau(family)
            heading = f"### {family[0].upper()}{family[1:]}\n"
            print(heading, *table(lines), sep="\n", end="\n\n", flush=True)
            rows.append(summary(family, lines, tau))
            if family in GOALS and not is_met(family, lines, tau):
                missed.append(family)
        print("### The figures\n", *published(figures), sep="\n", end="\n\n")
        print("### In short\n")
        print("| family | model / silicon | bar | lines within | tau |")
        print("| --- | --- | ---: | --- | ---: |", *rows, sep="\n")
        clock = compared.clock_ghz
        low, high = (clock / ghz for ghz in reversed(NEIGHBOURS_GHZ))
        print(
            f"\nThe ladder inside L2 implies a clock of {clock:.3f} GHz. "
            f"At {NEIGHBOURS_GHZ[0]} to {NEIGHBOURS_GHZ[1]} GHz, ratios of nanoseconds\n"
            f"would be {low:.2f} to {high:.2f} times those shown."
        )
    for family in missed:
        sys.stderr.write(f"goal missed: {family}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
