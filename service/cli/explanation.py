"""An explanation for people: where the cycles go, the roofline, the hottest loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli.listing import cause_text, print_listing
from service.cli.output import print_line, print_table

if TYPE_CHECKING:
    from tuner.measure.explanation import Explanation, Region

LISTED_REGIONS = 3
"""Regions that are listed packet by packet."""
LISTED_SHARE = 0.9
"""No more regions are listed once those listed make up this share of the cycles."""
LEAST_SHARE = 0.01
"""Code that takes less of the cycles is not worth a line."""
_BAR_COLUMNS = 24


def print_explanation(explanation: Explanation, symbol: str) -> None:
    """All of it, on standard output. ``symbol`` is the candidate's entry."""
    for print_section in (_print_split, _print_roofline, _print_instructions):
        print_section(explanation)
        print_line()
    print_regions(explanation, symbol)
    print_line("packets and stalls are for one time through; inner loops count by themselves;")
    print_line("a unit that is busy in nearly every packet is what limits the loop")
    if explanation.unplaced:
        print_line(
            f"{explanation.unplaced:,} cycles belong to no packet: threads starting, waiting"
        )
    covered = 0.0
    for place, region in enumerate(explanation.regions[:LISTED_REGIONS], 1):
        if covered < LISTED_SHARE:
            print_line()
            print_line(f"{place}. {_title(region, explanation, symbol)}")
            print_listing(region, explanation)
        covered += region.totals.cycles / explanation.cycles


def _print_split(explanation: Explanation) -> None:
    from tuner.measure.explanation import GROUP_TITLES, GROUPS

    rows = []
    for group in GROUPS:
        parts = [part for part in explanation.parts if part.group == group and part.cycles]
        if parts:
            cycles = explanation.group(group)
            bar = "\N{FULL BLOCK}" * round(_BAR_COLUMNS * cycles / explanation.cycles)
            rows.append([GROUP_TITLES[group], *_share(cycles, explanation), bar])
            rows += [
                [f"  {cause_text(part.cause, group)}", *_share(part.cycles, explanation), ""]
                for part in parts
            ]
    print_table(["where the cycles go", "cycles", "share", ""], rows, numeric=["cycles", "share"])


def _share(cycles: float, explanation: Explanation) -> tuple[str, str]:
    return f"{cycles:,.0f}", f"{cycles / explanation.cycles:.1%}"


def _print_roofline(explanation: Explanation) -> None:
    from tuner.records.roofline import TITLES

    roofline = explanation.roofline
    columns = ["roofline", "work", "reached a cycle", "at most", "least cycles", "share"]
    rows = [
        [
            TITLES[bound.resource],
            f"{bound.work:,} {bound.unit}",
            f"{bound.work / explanation.cycles:.1f}",
            f"{bound.per_cycle:g}",
            *_share(bound.cycles, explanation),
        ]
        for bound in roofline.bounds
    ]
    print_table(columns, rows, numeric=columns[1:])
    binding = roofline.binding
    print_line(f"{TITLES[binding.resource]} bind: at least {binding.cycles:,.0f} cycles")


def _print_instructions(explanation: Explanation) -> None:
    totals = explanation.totals
    columns = ["instructions", "executed", "per output vector", "per packet"]
    rows = [
        [
            kind,
            f"{count:,}",
            f"{count / explanation.output_vectors:.2f}",
            f"{count / totals.packets:.2f}",
        ]
        for kind, count in totals.kinds.items()
    ]
    print_table(columns, rows, numeric=columns[1:])
    print_line(
        f"{totals.vector_instructions / totals.packets:.2f} vector instructions and "
        f"{totals.slots / totals.packets:.2f} of 4 slots a packet; "
        f"{totals.unaligned:,} unaligned accesses, {totals.spills:,} vector spills and reloads"
    )
    print_line(f"{explanation.code_bytes:,} bytes of code")


def print_regions(explanation: Explanation, symbol: str, *, per_vector: bool = False) -> None:
    """The loops and functions that take at least a hundredth of the cycles.

    Cycles of the whole call, or for each vector of output.
    """
    unit = "per vector" if per_vector else "cycles"
    columns = ["", "hottest code", "times", "packets", "stalls", unit, "share", "busiest unit"]
    spills = explanation.totals.spills > 0
    rows = [
        [
            place,
            _name(region, symbol),
            f"{region.times:,}",
            f"{totals.packets / region.times:.1f}",
            f"{(totals.cycles - totals.issue) / region.times:.1f}",
            f"{totals.cycles / explanation.output_vectors:.2f}"
            if per_vector
            else f"{totals.cycles:,}",
            f"{totals.cycles / explanation.cycles:.1%}",
            _busiest(region),
            *([f"{totals.spills:,}"] if spills else []),
        ]
        for place, region in enumerate(explanation.regions, 1)
        for totals in [region.totals]
        if totals.cycles >= LEAST_SHARE * explanation.cycles
    ]
    columns += ["spills"] * spills
    print_table(columns, rows, numeric=columns[2:])


def _busiest(region: Region) -> str:
    """``load 100%``: the packets' loads, of one each."""
    unit, busy = region.busiest_unit
    return f"{unit.removeprefix('vector ')} {busy:.0%}" if unit else ""


def _name(region: Region, symbol: str) -> str:
    place = f"{'loop' if region.kind == 'loop' else 'code'} {region.begin:#x}"
    return place if region.function == symbol else f"{place} in {region.function}"


def _title(region: Region, explanation: Explanation, symbol: str) -> str:
    inside = f", inside loop {region.inside:#x}" if region.inside is not None else ""
    return (
        f"{_name(region, symbol)}{inside}: "
        f"{region.totals.cycles / explanation.cycles:.1%} of the cycles, {region.times:,} times"
    )
