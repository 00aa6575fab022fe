"""``hvxtune search bench``: samplers compared on tables of known results, nothing compiled."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.options import AsJson
from service.cli.output import print_json, print_line, print_table
from service.cli.progress import counted
from tuner.errors import UserError

if TYPE_CHECKING:
    from benchmarks.search.comparison import Comparison, PairedRatio, Result

_MOST_SEEDS = 10_000


def bench(
    tables: Annotated[
        list[Path] | None,
        typer.Option("--tables", metavar="FILE...", help="Tables of measured configs."),
    ] = None,
    more_tables: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="More tables.")
    ] = None,
    samplers: Annotated[
        list[str] | None,
        typer.Option(
            "--samplers", metavar="NAME,...", help="Which to compare; all but brute by default."
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=_MOST_SEEDS, help="Runs of each sampler on each table.")
    ] = 20,
    in_flight: Annotated[
        int, typer.Option(min=1, max=256, help="Candidates asked for before one is told.")
    ] = 1,
    starts: Annotated[
        bool, typer.Option("--starts", help="Try the starts that tables name first, as jobs do.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Processes (one per processor).", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare samplers by replaying them on tables of measured configs."""
    from benchmarks.search.comparison import Comparison, compare, default_samplers
    from tuner.jobs.tuning import default_workers
    from tuner.search.samplers import require_sampler

    paths = [*(tables or []), *(more_tables or [])]
    if not paths:
        raise UserError(
            "no table to search", next_step="name some: hvxtune search bench --tables FILE..."
        )
    named = [name for text in samplers or [] for name in text.split(",") if name]
    chosen = list(dict.fromkeys(named))
    left_out: dict[str, str] = {}
    for name in chosen:
        require_sampler(name)
    if not chosen:
        chosen, left_out = default_samplers(paths)
    total = len(paths) * len(chosen) * seeds
    numbers = itertools.count(1)
    with counted("searches") as show:
        for item in compare(
            paths,
            chosen,
            seeds=seeds,
            workers=workers or default_workers(),
            in_flight=in_flight,
            starts=starts,
        ):
            if isinstance(item, Comparison):
                found = item
            else:
                show(next(numbers), total)
    if as_json:
        print_json({**_json(found, seeds), "left_out": left_out})
        return
    for name, reason in left_out.items():
        print_line(f"left out: {name} ({reason})")
    print_comparison(found, seeds)


def print_comparison(found: Comparison, seeds: int) -> None:
    """Figures by table and over the judged ones, then our sampler against each of the others."""
    from benchmarks.search.comparison import BUDGETS, is_held_out

    for table in found.tables:
        mark = "" if is_held_out(table) else " (not held out: settings were chosen on this kernel)"
        configs = f"{len(table.rows)} configs, optimum {table.optimum:,} cycles"
        print_line(f"{table.name}: {configs}{mark}")
        columns = ["sampler", *(f"at {n}" for n in BUDGETS)]
        print_table(
            columns,
            [
                (r.sampler, *(_ratio(f.geometric_mean) for f in r.figures))
                for r in found.of_table(table.name)
            ],
            numeric=columns[1:],
        )
        print_line()
    held_out = "held-out " if all(is_held_out(t) for t in found.judged) else ""
    print_line(f"{len(found.judged)} {held_out}tables, {seeds} seeds: best/optimum, geometric mean")
    print_line("[95 % interval], worst run")
    columns = ["sampler", *(f"at {n} trials" for n in BUDGETS), "ms/trial"]
    print_table(columns, [_row(r) for r in found.overall()], numeric=columns[1:])
    _print_pairs(found.pairs())


def _print_pairs(pairs: Sequence[PairedRatio]) -> None:
    from benchmarks.search.comparison import BUDGETS, MARGIN

    if not pairs:
        return
    print_line()
    print_line(f"best of {pairs[0].sampler} over that of each other, paired by table and seed:")
    margin = f"{100 * (MARGIN - 1):.0f} %"
    print_line(f"geometric mean [95 % interval]; no worse: surely less than {margin} behind")
    cells: dict[str, list[str]] = {}
    for pair in pairs:
        low, high = pair.interval
        cells.setdefault(pair.other, []).append(
            f"{pair.ratio:.3f} [{low:.3f}-{high:.3f}] {pair.verdict}"
        )
    columns = [f"{pairs[0].sampler} over", *(f"at {n} trials" for n in BUDGETS)]
    rows = [(other, *found) for other, found in cells.items()]
    print_table(columns, rows, numeric=columns[1:])


def _row(result: Result) -> tuple[str, ...]:
    cells = (
        f"{_ratio(f.geometric_mean)} [{_ratio(f.interval[0])}-{_ratio(f.interval[1])}]"
        f" {_ratio(f.worst)}"
        for f in result.figures
    )
    return (result.sampler, *cells, f"{result.own_ms:.1f}")


def _ratio(ratio: float) -> str:
    return "none" if math.isinf(ratio) else f"{ratio:.3f}"


def _json(found: Comparison, seeds: int) -> dict[str, Any]:
    from benchmarks.search.comparison import is_held_out

    return {
        "seeds": seeds,
        "tables": [
            {
                "table": table.name,
                "held_out": is_held_out(table),
                "configs": len(table.rows),
                "optimum_cycles": table.optimum,
                "samplers": [_plain(asdict(r)) for r in found.of_table(table.name)],
            }
            for table in found.tables
        ],
        "judged_tables": [table.name for table in found.judged],
        "samplers": [_plain(asdict(r)) for r in found.overall()],
        "pairs": [_plain(asdict(p) | {"verdict": p.verdict.value}) for p in found.pairs()],
    }


def _plain(value: Any) -> Any:
    """JSON knows no infinity."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return None if math.isinf(value) else round(value, 6)
    return value
