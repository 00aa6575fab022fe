"""Every search on the tables of measured configs, side by side, and whether ours keeps its bars.

What ``hvxtune search bench`` compares, with the bars that the default search keeps to.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from benchmarks.harness import Report
from benchmarks.search.comparison import (
    BUDGETS,
    MARGIN,
    Comparison,
    Verdict,
    compare,
    default_samplers,
)
from tuner.jobs.tuning import default_workers
from tuner.search.samplers import DEFAULT_SAMPLER

TABLES = Path(__file__).parent / "tables"
BARS: Mapping[int, float] = {20: 1.07, 50: 1.02, 100: 1.0005}
"""What best over optimum must come to, geometric mean over held-out tables, after so many
trials."""
WORST_TABLE: tuple[int, float] = (50, 1.10)
"""A number of trials, and the bound on the mean of every single table after them."""
MOST_OWN_MS = 5.0
"""Of sampler and proposer, a trial."""


def judge(found: Comparison, report: Report) -> None:
    """Tells a row for each search, then each bar."""
    report.table(
        {
            "search": "",
            **{f"{trials} trials": ".3f" for trials in BUDGETS},
            f"worst of {BUDGETS[0]}": ".2f",
            "ms/trial": ".1f",
        },
        "Best over optimum, geometric mean over held-out tables",
    )
    for result in found.overall():
        means = [one.geometric_mean for one in result.figures]
        report.row(f"`{result.sampler}`", *means, result.figures[0].worst, result.own_ms)
    report.table({"other": "", "trials": ",", "ratio": ".3f", "95 %": "", "verdict": ""})
    pairs = found.pairs()
    for pair in pairs:
        interval = "{:.3f} to {:.3f}".format(*pair.interval)
        report.row(f"`{pair.other}`", pair.trials, pair.ratio, interval, pair.verdict.value)
    ours = next(r for r in found.overall() if r.sampler == DEFAULT_SAMPLER)
    for trials, most in BARS.items():
        mean = ours.figures[BUDGETS.index(trials)].geometric_mean
        report.bar(f"after {trials} trials", mean, most=most)
    trials, most = WORST_TABLE
    means_of = {
        table.name: result.figures[BUDGETS.index(trials)].geometric_mean
        for table in found.judged
        for result in found.of_table(table.name)
        if result.sampler == DEFAULT_SAMPLER
    }
    worst = max(means_of, key=lambda name: means_of[name])
    report.bar(f"after {trials} trials on {worst}, the worst table", means_of[worst], most=most)
    report.bar("milliseconds of its own, a trial", ours.own_ms, most=MOST_OWN_MS)
    for pair in pairs:
        if pair.verdict not in (Verdict.BETTER, Verdict.NO_WORSE):
            report.fault(
                f"after {pair.trials} trials {pair.verdict} beside {pair.other}: "
                f"{pair.ratio:.4f}, surely below {MARGIN} is wanted"
            )


def options(parser: argparse.ArgumentParser) -> None:
    """Which tables, how often, and in how many processes."""
    parser.add_argument("tables", nargs="*", type=Path, metavar="TABLE")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=default_workers())


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells the comparison and the bars."""
    paths = given.tables or sorted(TABLES.glob("*.jsonl.gz"))
    samplers, left_out = default_samplers(paths)
    for name, reason in left_out.items():
        report.remark(f"left out: {name} ({reason})")
    for item in compare(paths, samplers, seeds=given.seeds, workers=given.workers):
        if isinstance(item, Comparison):
            judge(item, report)
