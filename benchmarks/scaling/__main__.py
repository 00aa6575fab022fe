"""Simulates laboratories of up to 7,296 devices with costs measured here.

    python -m benchmarks.scaling [--json] [--from FILE] [--plots FOLDER]

Measuring takes about five minutes, simulating as much. ``--from`` takes the measurements of an
earlier run, which ``--json`` printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.scale import Scale, measure_scales
from benchmarks.scaling.costs import Costs, measure_costs
from benchmarks.scaling.model import KINDS, Result
from benchmarks.scaling.sweep import (
    LARGEST,
    bottleneck,
    by_cost,
    by_size,
    remedies,
    simulated,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints costs and results as Markdown tables, or all as one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--from", dest="earlier", type=Path, help="JSON of an earlier run")
    parser.add_argument("--plots", type=Path, help="the folder to draw into")
    given = parser.parse_args(arguments)
    costs, measured = _read(given.earlier) if given.earlier else _measure()
    checked = list(simulated(measured, costs))
    sizes = []
    for result in by_size(costs):
        sizes.append(result)
        _note(f"{result.lab.devices} devices, {result.lab.run_s:.3g} s: {result.throughput:.0f}/s")
    tried = list(remedies(costs))
    changed = list(by_cost(costs))
    if given.plots:
        from benchmarks.scaling.plots import draw

        draw(sizes, checked, given.plots)
    if given.json:
        print(
            json.dumps(
                {
                    "costs": asdict(costs),
                    "scale": [
                        {**asdict(one), "efficiency": one.efficiency, "simulated": efficiency}
                        for one, efficiency in checked
                    ],
                    "sizes": [_figures(one) for one in sizes],
                    "remedies": [{"change": name, **_figures(one)} for name, one in tried],
                    "sensitivity": [
                        {"cost": name, "factor": factor, **_figures(one)}
                        for name, factor, one in changed
                    ],
                }
            )
        )
        return 0
    _table("measured here", "milliseconds", [[n, _cost(n, v)] for n, v in vars(costs).items()])
    _table(
        "workers",
        "measured | simulated efficiency",
        [[str(o.workers), f"{o.efficiency:.1%}", f"{e:.1%}"] for o, e in checked],
    )
    _table(
        "devices | s a run",
        "trials/s | of ideal | transactions/s | rows/s | " + " | ".join(KINDS) + " | full first",
        [_row(one) for one in sizes],
    )
    _table(
        "devices | s a run",
        "mean wait in ms: " + " | ".join(KINDS) + " | landed",
        [
            [
                *_name(one),
                *(f"{1e3 * one.wait_s(kind):.1f}" for kind in KINDS),
                f"{1e3 * one.landed_wait_s:.1f}",
            ]
            for one in sizes
        ],
    )
    as_it_is = tried[0][1]
    _table(
        "one server",
        "ms a trial | full at trials/s",
        [
            [kind, f"{1e3 * as_it_is.cost_s(kind):.2f}", f"{1 / as_it_is.cost_s(kind):,.0f}"]
            for kind in KINDS
        ],
    )
    _table(
        f"{LARGEST.devices:,} devices",
        "trials/s | of ideal | busiest",
        [[name, *_short(one)] for name, one in tried],
    )
    _table(
        "cost | times",
        "trials/s | of ideal | busiest",
        [[name, f"{factor:g}", *_short(one)] for name, factor, one in changed],
    )
    return 0


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _measure() -> tuple[Costs, list[Scale]]:
    costs = measure_costs(_note)
    _note("a cluster of 1 to 16 workers")
    return costs, list(measure_scales())


def _read(path: Path) -> tuple[Costs, list[Scale]]:
    found = json.loads(path.read_text())
    fields = Scale.__dataclass_fields__
    scales = [Scale(**{name: one[name] for name in fields}) for one in found["scale"]]
    return Costs(**found["costs"]), scales


def _figures(one: Result) -> dict[str, Any]:
    return {
        **asdict(one.lab),
        "trials_per_job": None,  # endless, which JSON lacks
        "throughput": one.throughput,
        "efficiency": one.efficiency,
        "transactions": one.transactions / one.seconds,
        "rows": one.rows,
        "use": {kind: one.use(kind) for kind in KINDS},
        "wait_s": {kind: one.wait_s(kind) for kind in KINDS},
        "landed_wait_s": one.landed_wait_s,
        "busiest": bottleneck(one),
    }


def _cost(name: str, value: float) -> str:
    return f"{value:.2f} (a ratio)" if name.endswith("_cv") else f"{1e3 * value:.2f}"


def _name(one: Result) -> list[str]:
    return [f"{one.lab.devices:,}", f"{one.lab.run_s:.2g}"]


def _short(one: Result) -> list[str]:
    return [f"{one.throughput:,.0f}", f"{one.efficiency:.0%}", bottleneck(one)]


def _row(one: Result) -> list[str]:
    return [
        *_name(one),
        f"{one.throughput:,.1f}",
        f"{one.efficiency:.0%}",
        f"{one.transactions / one.seconds:,.0f}",
        f"{one.rows:,.0f}",
        *(f"{one.use(kind):.0%}" for kind in KINDS),
        bottleneck(one),
    ]


def _table(first: str, others: str, rows: Sequence[Sequence[str]]) -> None:
    print(f"| {first} | {others} |")
    print("| " + " | ".join(["---"] * len(rows[0])) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


if __name__ == "__main__":
    sys.exit(main())
