"""Every search on the tables of measured configs, side by side, and whether ours keeps its bars.

    python -m benchmarks.searches [--seeds 20] [--workers N] [--without NAME,...] [TABLE ...]

What ``hvxtune search bench`` prints, with Kernel Tuner's strategies among the searches if it is
installed: same tables, same seeds, so that each is paired with ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.kernel_tuner_search import guests_installed
from benchmarks.search.comparison import BUDGETS, Comparison, Verdict, compare, default_samplers
from service.cli.searching import print_comparison
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


def verdicts(found: Comparison) -> Iterator[str]:
    """One line a bar: what was asked, what was measured, held or not."""
    ours = next(r for r in found.overall() if r.sampler == DEFAULT_SAMPLER)
    for trials, most in BARS.items():
        mean = ours.figures[BUDGETS.index(trials)].geometric_mean
        held = "held" if mean <= most else "NOT held"
        yield f"after {trials} trials at most {most}: {mean:.4f}, {held}"
    trials, most = WORST_TABLE
    means = {
        table.name: result.figures[BUDGETS.index(trials)].geometric_mean
        for table in found.judged
        for result in found.of_table(table.name)
        if result.sampler == DEFAULT_SAMPLER
    }
    worst = max(means, key=lambda name: means[name])
    held = "held" if means[worst] <= most else "NOT held"
    yield f"after {trials} trials no table above {most}: {worst} {means[worst]:.4f}, {held}"
    held = "held" if ours.own_ms <= MOST_OWN_MS else "NOT held"
    yield f"at most {MOST_OWN_MS:g} ms a trial of its own: {ours.own_ms:.1f}, {held}"
    entitled = (Verdict.BETTER, Verdict.NO_WORSE)
    for trials in BUDGETS:
        pairs = [pair for pair in found.pairs() if pair.trials == trials]
        short = [pair for pair in pairs if pair.verdict not in entitled]
        text = ", ".join(
            f"{p.other} {p.verdict} ({p.ratio:.4f}, {p.interval[0]:.4f}-{p.interval[1]:.4f}, "
            f"{p.worst_ratio:.3f} on {p.worst_table})"
            for p in short
        )
        held = f"NOT held: {text}" if short else "held"
        yield f"after {trials} trials no worse than each of {len(pairs)} others: {held}"


def main() -> int:
    """Prints the comparison and the bars."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="*", type=Path, metavar="TABLE")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--without", default="", metavar="NAME,...", help="searches to leave out")
    given = parser.parse_args()
    paths = given.tables or sorted(TABLES.glob("*.jsonl.gz"))
    without = given.without.split(",")
    samplers, left_out = default_samplers(paths)
    for name, reason in left_out.items():
        print(f"left out: {name} ({reason})")
    guests = guests_installed()
    if not guests:
        print("left out: Kernel Tuner, which is not installed (pip install kernel-tuner)")
    runs = compare(
        paths,
        [name for name in samplers if name not in without],
        seeds=given.seeds,
        workers=given.workers,
        guests={name: guest for name, guest in guests.items() if name not in without},
    )
    done = 0
    for item in runs:
        if isinstance(item, Comparison):
            print_comparison(item, given.seeds)
            print("\n".join(["", *verdicts(item)]))
        elif sys.stderr.isatty():
            done += 1
            sys.stderr.write(f"\r{done} searches\x1b[K\r")
    return 0


if __name__ == "__main__":
    sys.exit(main())
