"""Two explanations side by side, for people: what one schedule does less of than the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli.explanation import GROUP_TITLES, print_regions
from service.cli.listing import cause_text
from service.cli.output import print_line, print_table

if TYPE_CHECKING:
    from tuner.measure.explanation import Comparison, Explanation
    from tuner.space import Config

Named = tuple[str, "Explanation"]


def print_knobs(own: tuple[str, Config], other: tuple[str, Config]) -> None:
    """The knobs in which two configs differ, and a blank line; nothing if they are equal."""
    values = {
        knob: [str(config.get(knob, "")) for _, config in (own, other)]
        for knob in dict.fromkeys((*own[1], *other[1]))
    }
    rows = [[knob, *both] for knob, both in values.items() if both[0] != both[1]]
    if rows:
        print_table(["knobs that differ", own[0], other[0]], rows)
        print_line()


def print_comparison(own: Named, other: Named, symbol: str) -> None:
    """All of it, on standard output. ``symbol`` is the entry of both candidates."""
    from tuner.measure.explanation import compare

    comparison = compare(own[1], other[1])
    print_line(_verdict(own[0], other[0], comparison))
    print_line()
    _print_split(own, other, comparison)
    print_line()
    _print_figures(own, other, comparison)
    for name, explanation in (own, other):
        print_line()
        print_line(f"{name}:")
        print_regions(explanation, symbol, per_vector=True)


def _verdict(own: str, other: str, comparison: Comparison) -> str:
    """``best takes 4,295 cycles less than default (2.33x faster): packets issued -2,796, ...``."""
    total = sum(pair.difference for pair in comparison.groups)
    parts = sorted(comparison.groups, key=lambda pair: -abs(pair.difference))
    shown = ", ".join(
        f"{GROUP_TITLES[pair.name]} {pair.difference:+,.0f}" for pair in parts if pair.difference
    )
    if not total:
        return f"{own} and {other} take the same number of cycles"
    much = f"{abs(total):,.0f} cycles {'less' if total < 0 else 'more'}"
    speed = comparison.speedup if total < 0 else 1 / comparison.speedup
    how = f"{speed:.2f}x {'faster' if total < 0 else 'slower'}"
    return f"{own} takes {much} than {other} ({how}): {shown}"


def _print_split(own: Named, other: Named, comparison: Comparison) -> None:
    columns = ["where the cycles go", own[0], other[0], "difference"]
    rows = []
    for group in comparison.groups:
        rows.append([GROUP_TITLES[group.name], *_cycles(group.own, group.other)])
        causes = comparison.causes[group.name]
        rows += [
            [f"  {cause_text(pair.name, group.name)}", *_cycles(pair.own, pair.other)]
            for pair in causes
        ]
    rows.append(["cycles", *_cycles(own[1].cycles, other[1].cycles)])
    print_table(columns, rows, numeric=columns[1:])


def _cycles(own: float, other: float) -> tuple[str, str, str]:
    return f"{own:,.0f}", f"{other:,.0f}", f"{own - other:+,.0f}" if own != other else ""


def _print_figures(own: Named, other: Named, comparison: Comparison) -> None:
    columns = ["for each output vector", own[0], other[0], "ratio"]
    rows = [
        [
            pair.name,
            f"{pair.own:,.2f}",
            f"{pair.other:,.2f}",
            f"{pair.own / pair.other:.2f}" if pair.other else "",
        ]
        for pair in comparison.per_output_vector
    ]
    print_table(columns, rows, numeric=columns[1:])
