"""Simulates laboratories of up to 7,296 devices with costs measured here.

Measuring takes about five minutes, simulating as much. ``--costs`` keeps the measurements in a
file, or takes them from it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness import Report, tell
from benchmarks.scaling.cluster import Scale, measure_overhead, measure_scales
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
from tests.tuner.executor.cluster.started import started_cluster

SHORT = {"trials/s": ",.0f", "of ideal": ".0%", "busiest": ""}


def options(parser: argparse.ArgumentParser) -> None:
    """Where measurements are kept."""
    parser.add_argument("--costs", type=Path, metavar="FILE", help="JSON of measurements")


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells costs and results."""
    if given.costs and given.costs.exists():
        costs, measured = _read(given.costs)
    else:
        costs, measured = _measure(report)
        if given.costs:
            kept = {"costs": asdict(costs), "scales": [asdict(one) for one in measured]}
            given.costs.write_text(json.dumps(kept))
    report.table({"measured here": "", "milliseconds": ".2f"})
    for name, value in vars(costs).items():
        is_ratio = name.endswith("_cv")
        report.row(f"{name} (a ratio)" if is_ratio else name, value if is_ratio else 1e3 * value)
    report.table({"workers": ",", "measured efficiency": ".1%", "simulated": ".1%"})
    for one, efficiency in simulated(measured, costs):
        report.row(one.workers, one.efficiency, efficiency)
    report.table(
        {
            "devices": ",",
            "s a run": ".2g",
            "trials/s": ",.1f",
            "of ideal": ".0%",
            "transactions/s": ",.0f",
            "rows/s": ",.0f",
            **dict.fromkeys(KINDS, ".0%"),
            **{f"wait for {kind}, ms": ".1f" for kind in KINDS},
            "landed, ms": ".1f",
            "full first": "",
        }
    )
    for result in by_size(costs):
        report.row(
            *(result.lab.devices, result.lab.run_s, result.throughput, result.efficiency),
            *(result.transactions / result.seconds, result.rows),
            *(result.use(kind) for kind in KINDS),
            *(1e3 * result.wait_s(kind) for kind in KINDS),
            *(1e3 * result.landed_wait_s, bottleneck(result)),
        )
    tried = list(remedies(costs))
    as_it_is = tried[0][1]
    report.table({"one server": "", "ms a trial": ".2f", "full at trials/s": ",.0f"})
    for kind in KINDS:
        report.row(kind, 1e3 * as_it_is.cost_s(kind), 1 / as_it_is.cost_s(kind))
    report.table({f"{LARGEST.devices:,} devices": "", **SHORT})
    for name, result in tried:
        report.row(name, *_short(result))
    report.table({"cost": "", "times": "g", **SHORT})
    for name, factor, result in by_cost(costs):
        report.row(name, factor, *_short(result))


def _measure(report: Report) -> tuple[Costs, list[Scale]]:
    costs = measure_costs(tell)
    tell("a cluster of 1 to 16 workers")
    scales = list(measure_scales())
    with tempfile.TemporaryDirectory() as folder, started_cluster(Path(folder), "one") as cluster:
        overhead = measure_overhead(cluster)
    report.remark(
        f"{overhead.trials} trials of add_u8, one at a time: {overhead.here_s:.2f} s here, "
        f"{overhead.cluster_s:.2f} s on a worker: {overhead.per_trial_ms:+.1f} ms a trial"
    )
    return costs, scales


def _read(path: Path) -> tuple[Costs, list[Scale]]:
    kept = json.loads(path.read_text())
    return Costs(**kept["costs"]), [Scale(**one) for one in kept["scales"]]


def _short(one: Result) -> tuple[Any, ...]:
    return (one.throughput, one.efficiency, bottleneck(one))
