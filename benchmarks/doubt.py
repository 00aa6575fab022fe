"""How far the bests of twelve jobs rest on assumed costs, and what a robust choice would give.

    python -m benchmarks.doubt [--both-ways] [--trials 30] [--cache warm] [--workers N] [KERNEL ...]

Six kernels at two shapes are tuned, and every schedule found is priced at points all over the box
of plausible costs (``tuner.search.doubt``). "plain" is the fastest at the model's own costs, which
is what is stored; "robust" is the one that loses least on average over the box. Losses are against
the fastest schedule of the same job at the same point: 0 % everywhere is a choice without doubt.

With ``--both-ways`` each job is searched twice, for the fastest and for a robust schedule
(``prefer``), and what they choose is held against the fastest that either search found at a point.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuner.jobs.job_result import TuneResult
from tuner.jobs.tuning import tune
from tuner.keeping.memory_store import MemoryStore
from tuner.problem.target import find_target
from tuner.records.candidate import CACHE_STATES
from tuner.records.request import Preference
from tuner.records.trial import CountedTrial
from tuner.search.doubt import TIE, Doubt, doubt_of

JOBS: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]] = {
    "gemm_u8": ({"m": 64, "n": 256, "k": 64}, {"m": 256, "n": 256, "k": 256}),
    "depthwise_conv2d_u8": (
        {"height": 32, "width": 32, "channels": 128},
        {"height": 14, "width": 14, "channels": 256, "stride": 2},
    ),
    "add_u8": ({"width": 512, "height": 64}, {"width": 1024, "height": 256}),
    "gaussian5x5_u8": ({"width": 512, "height": 64}, {"width": 1920, "height": 64}),
    "resize_bilinear_u8": ({"width": 1024, "height": 32}, {"width": 640, "height": 96}),
    "softmax_u8": ({"width": 1024, "height": 32}, {"width": 256, "height": 64}),
}
SEED = 18


@dataclass(frozen=True)
class Row:
    """One job: its ``doubt``, and what it is called."""

    label: str
    doubt: Doubt


def judged(kernel: str, params: Mapping[str, int], options: Mapping[str, Any]) -> Row:
    """Tunes one job in memory."""
    found: TuneResult = tune(kernel, params, seed=SEED, **options)
    if not isinstance(found.doubt, Doubt):
        raise SystemExit(f"{kernel} {dict(params)}: nothing is known ({found.doubt})")
    return Row(f"{kernel} {'x'.join(map(str, params.values()))}", found.doubt)


def print_rows(rows: Sequence[Row]) -> None:
    """Prints the table, as Markdown, and the means."""
    near = f"within {100 * TIE:.0f} %"
    print(
        f"| job | schedules | best | {near} | mean loss | worst | robust {near} | mean loss "
        "| worse as assumed | hangs on |"
    )
    print("| --- |" + " --: |" * 8 + " --- |")
    for row in rows:
        doubt, robust, hinge = row.doubt, row.doubt.robust, row.doubt.hinge
        hangs = (
            ""
            if hinge is None
            else f"`{hinge.cost}` {hinge.side} {hinge.threshold:.3g}, up to {hinge.gain:.0%}"
        )
        print(
            f"| {row.label} | {doubt.schedules} | {doubt.best_share:.0%} | {doubt.near_share:.0%} "
            f"| {doubt.mean_loss:.1%} | {doubt.worst_loss:.0%} | {robust.near_share:.0%} "
            f"| {robust.mean_loss:.1%} | {robust.more_cycles:.1%} | {hangs} |"
        )
    plain = statistics.mean(row.doubt.near_share for row in rows)
    robust_near = statistics.mean(row.doubt.robust.near_share for row in rows)
    print(
        f"\n{near} of the fastest, mean of {len(rows)} jobs: plain {plain:.0%}, robust "
        f"{robust_near:.0%}; mean loss: plain "
        f"{statistics.mean(row.doubt.mean_loss for row in rows):.1%}, robust "
        f"{statistics.mean(row.doubt.robust.mean_loss for row in rows):.1%}; the robust choice is "
        f"another one in {sum(row.doubt.robust.trial != row.doubt.trial for row in rows)} jobs"
    )


@dataclass(frozen=True)
class Choice:
    """One schedule of a job that was searched both ways, and its ``doubt`` among all of them."""

    label: str
    way: str
    cycles: int
    doubt: Doubt


def both_ways(kernel: str, params: Mapping[str, int], options: Mapping[str, Any]) -> list[Choice]:
    """Searches one job for the fastest and for a robust schedule, apart from each other."""
    pool: list[CountedTrial] = []
    chosen: dict[str, int] = {}
    searches: tuple[Preference, ...] = ("fastest", "robust")
    for prefer in searches:
        store = MemoryStore()
        done = tune(kernel, params, store=store, seed=SEED, prefer=prefer, **options)
        if not isinstance(done.doubt, Doubt):
            raise SystemExit(f"{kernel} {dict(params)}: nothing is known ({done.doubt})")
        trials = store.counted_trials(done.job.id)
        places = {one.number: len(pool) + place for place, one in enumerate(trials)}
        pool += [replace(one, number=places[one.number]) for one in trials]
        if prefer == "fastest":
            chosen["fastest"] = places[done.doubt.trial]
            chosen["robust of the same trials"] = places[done.doubt.robust.trial]
        else:
            chosen["searched for robust"] = places[done.doubt.trial]
    label = f"{kernel} {'x'.join(map(str, params.values()))}"
    rows = []
    for way, number in chosen.items():
        doubt = doubt_of(pool, find_target(options["target"]), number)
        if isinstance(doubt, Doubt):  # as it was of either search by itself
            rows.append(Choice(label, way, pool[number].cycles, doubt))
    return rows


def print_choices(rows: Sequence[Choice]) -> None:
    """Prints the table of ``--both-ways``, as Markdown."""
    print(f"| job | choice | model cycles | best | within {100 * TIE:.0f} % | mean loss | worst |")
    print("| --- | --- |" + " --: |" * 5)
    for row in rows:
        doubt = row.doubt
        print(
            f"| {row.label} | {row.way} | {row.cycles:,} | {doubt.best_share:.0%} "
            f"| {doubt.near_share:.0%} | {doubt.mean_loss:.1%} | {doubt.worst_loss:.0%} |"
        )


def main() -> int:
    """Runs the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kernels", nargs="*", default=list(JOBS), metavar="KERNEL")
    parser.add_argument("--both-ways", action="store_true")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--cache", choices=CACHE_STATES, default="warm")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    unknown = [kernel for kernel in given.kernels if kernel not in JOBS]
    if unknown:
        parser.error(f"no job of {', '.join(unknown)}; accepted: {', '.join(JOBS)}")
    options = {
        "target": "hexagon-v66",
        "contract": "static",
        "trials": given.trials,
        "cache": given.cache,
        "workers": given.workers,
    }
    jobs = [(kernel, params) for kernel in given.kernels for params in JOBS[kernel]]
    if given.both_ways:
        print_choices([row for job in jobs for row in both_ways(*job, options)])
        return 0
    rows = []
    for kernel, params in jobs:
        rows.append(judged(kernel, params, options))
        print(f"{rows[-1].label}: {rows[-1].doubt.sentence}", file=sys.stderr, flush=True)
    print_rows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
