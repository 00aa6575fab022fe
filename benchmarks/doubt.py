"""How far the bests of twelve jobs rest on assumed costs, and what a robust choice would give.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.harness import Report, add_names, tell
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


def tell_rows(rows: Sequence[Row], report: Report) -> None:
    """Tells the table, and the means."""
    near = f"within {100 * TIE:.0f} %"
    report.table(
        {
            "job": "",
            "schedules": ",",
            "best": ".0%",
            near: ".0%",
            "mean loss": ".1%",
            "worst": ".0%",
            f"robust {near}": ".0%",
            "robust mean loss": ".1%",
            "worse as assumed": ".1%",
            "hangs on": "",
        }
    )
    for row in rows:
        doubt, robust, hinge = row.doubt, row.doubt.robust, row.doubt.hinge
        hangs = (
            ""
            if hinge is None
            else f"`{hinge.cost}` {hinge.side} {hinge.threshold:.3g}, up to {hinge.gain:.0%}"
        )
        report.row(
            *(row.label, doubt.schedules, doubt.best_share, doubt.near_share),
            *(doubt.mean_loss, doubt.worst_loss, robust.near_share, robust.mean_loss),
            *(robust.more_cycles, hangs),
        )
    plain = statistics.mean(row.doubt.near_share for row in rows)
    robust_near = statistics.mean(row.doubt.robust.near_share for row in rows)
    report.remark(
        f"{near} of the fastest, mean of {len(rows)} jobs: plain {plain:.0%}, robust "
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


def tell_choices(rows: Sequence[Choice], report: Report) -> None:
    """Tells the table of ``--both-ways``."""
    report.table(
        {
            "job": "",
            "choice": "",
            "model cycles": ",",
            "best": ".0%",
            f"within {100 * TIE:.0f} %": ".0%",
            "mean loss": ".1%",
            "worst": ".0%",
        }
    )
    for row in rows:
        doubt = row.doubt
        report.row(
            *(row.label, row.way, row.cycles, doubt.best_share, doubt.near_share),
            *(doubt.mean_loss, doubt.worst_loss),
        )


def options(parser: argparse.ArgumentParser) -> None:
    """Which jobs, and how they are searched."""
    add_names(parser, "KERNEL", JOBS)
    parser.add_argument("--both-ways", action="store_true")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--cache", choices=CACHE_STATES, default="warm")
    parser.add_argument("--workers", type=int, default=1)


def run(given: argparse.Namespace, report: Report) -> None:
    """Tunes the jobs, and tells a table."""
    how = {name: getattr(given, name) for name in ("trials", "cache", "workers")}
    how |= {"target": "hexagon-v66", "contract": "static"}
    jobs = [(kernel, params) for kernel in given.names for params in JOBS[kernel]]
    if given.both_ways:
        tell_choices([row for job in jobs for row in both_ways(*job, how)], report)
        return
    rows = []
    for kernel, params in jobs:
        rows.append(judged(kernel, params, how))
        tell(f"{rows[-1].label}: {rows[-1].doubt.sentence}")
    tell_rows(rows, report)
