"""What the robust default costs at the model's own costs, and what it saves over plausible ones.

Every job is searched twice: for the fastest schedule, and as by default for the one of fewest
expected cycles. What both chose is priced at points all over the box of plausible costs
(``tuner.search.doubt``). Losses are against the fastest schedule that either search found at the
same point: 0 % everywhere is a choice without doubt. The jobs are the shipped kernels at their
default shapes and some others, those that are also written by hand, and the everyday pipelines.
It fails if a default best loses more than 2 % on average while a trial of its job that takes at
most 1 % more cycles loses less.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from benchmarks.everyday.pipelines import PIPELINES
from benchmarks.hand.bench import JOBS as BY_HAND
from benchmarks.harness import Report, add_names, tell
from tuner.jobs.tuning import keep_pipeline, tune
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import kernel_names
from tuner.problem.target import find_target
from tuner.records.candidate import CACHE_STATES, PREFERENCES, Preference
from tuner.records.trial import CountedTrial
from tuner.search.doubt import TIE, Doubt, doubt_of

SHAPES: Mapping[str, Mapping[str, int]] = {
    "gemm_u8 64x256x64": {"m": 64, "n": 256, "k": 64},
    "gemm_u8 256x256x256": {"m": 256, "n": 256, "k": 256},
    "depthwise_conv2d_u8 32x32x128": {"height": 32, "width": 32, "channels": 128},
    "depthwise_conv2d_u8 14x14x256/2": {"height": 14, "width": 14, "channels": 256, "stride": 2},
    "add_u8 512x64": {"width": 512, "height": 64},
    "add_u8 1024x256": {"width": 1024, "height": 256},
    "gaussian5x5_u8 512x64": {"width": 512, "height": 64},
    "gaussian5x5_u8 1920x64": {"width": 1920, "height": 64},
    "resize_bilinear_u8 1024x32": {"width": 1024, "height": 32},
    "resize_bilinear_u8 640x96": {"width": 640, "height": 96},
    "softmax_u8 1024x32": {"width": 1024, "height": 32},
    "softmax_u8 256x64": {"width": 256, "height": 64},
}
"""Beside the default shapes; the name begins with the kernel's."""
SEED = 18
NEAR = 0.01
"""How many more cycles a trial may take that the best is held against."""

Tune = Callable[..., Any]


@cache
def _kept(make: Callable[[], Any]) -> str:
    """The kernel of a pipeline, made once: Halide would name its stages otherwise the next time,
    and with them the parameters."""
    return keep_pipeline(make())


def _pipeline(make: Callable[[], Any], sizes: Mapping[str, int], **options: Any) -> Any:
    return tune(_kept(make), sizes, **options)


def _by_hand(name: str, **options: Any) -> Any:
    return tune(BY_HAND[name].kernel(), BY_HAND[name].params, **options)


JOBS: Mapping[str, Tune] = {
    **{name: partial(tune, name, None) for name in kernel_names()},
    **{name: partial(tune, name.partition(" ")[0], shape) for name, shape in SHAPES.items()},
    **{f"by hand: {name}": partial(_by_hand, name) for name in BY_HAND},
    **{
        f"everyday: {name}": partial(_pipeline, one.make, one.sizes)
        for name, one in PIPELINES.items()
    },
}


@dataclass(frozen=True)
class Choice:
    """The best by one rule: its ``cycles`` with their range, by what share they are more than the
    fewest found, and its mean and worst loss over the box."""

    told: str
    more: float
    mean_loss: float
    worst_loss: float


def choices(job: Tune, options: Mapping[str, Any]) -> tuple[Mapping[Preference, Choice], float]:
    """What both searches choose, and what the default best loses on average beyond the trial of its
    job that takes about as many cycles and loses least."""
    target = find_target(options["target"])
    pool: list[CountedTrial] = []
    best: dict[Preference, tuple[int, str]] = {}
    beyond = 0.0
    for prefer in PREFERENCES:
        store = MemoryStore()
        done = job(store=store, seed=SEED, prefer=prefer, **options)
        if done.best is None:
            raise SystemExit(f"{prefer}: {done.job.note}")
        trials = store.counted_trials(done.job.id)
        first = max((one.number for one in pool), default=-1) + 1
        best[prefer] = first + done.best.number, done.best.measurement.cycles_text
        pool += [replace(one, number=first + one.number) for one in trials]
        if prefer == "robust":
            beyond = _beyond(trials, done.best.number, options["target"])
    least = min(one.cycles for one in pool)
    found: dict[Preference, Choice] = {}
    for prefer, (number, told) in best.items():
        doubt = doubt_of(pool, target, number)
        if not isinstance(doubt, Doubt):
            raise SystemExit(f"nothing is known ({doubt})")
        cycles = next(one.cycles for one in pool if one.number == number)
        found[prefer] = Choice(told, cycles / least - 1, doubt.mean_loss, doubt.worst_loss)
    return found, beyond


def _beyond(trials: Sequence[CountedTrial], number: int, target: str) -> float:
    """Nothing where the best loses at most :data:`TIE` on average."""
    cycles = next(one.cycles for one in trials if one.number == number)
    losses = {
        one.number: doubt.mean_loss
        for one in trials
        if abs(one.cycles / cycles - 1) <= NEAR
        and isinstance(doubt := doubt_of(trials, find_target(target), one.number), Doubt)
    }
    return losses[number] - min(losses.values()) if losses[number] > TIE else 0.0


def options(parser: argparse.ArgumentParser) -> None:
    """Which jobs, and how they are searched."""
    add_names(parser, "JOB", JOBS)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--cache", choices=CACHE_STATES, default="warm")
    parser.add_argument("--workers", type=int, default=1)


def run(given: argparse.Namespace, report: Report) -> None:
    """Tunes the jobs, and tells a row for each."""
    how = {name: getattr(given, name) for name in ("trials", "cache", "workers")}
    how |= {"target": "hexagon-v66", "contract": "static"}
    of_each = {"model cycles": "", "more": ".1%", "mean loss": ".1%", "worst": ".0%"}
    report.table(
        {
            "job": "",
            **{
                f"{prefer}: {name}": form
                for prefer in PREFERENCES
                for name, form in of_each.items()
            },
        }
    )
    rows: list[Mapping[Preference, Choice]] = []
    for name in given.names:
        tell(name)
        row, beyond = choices(JOBS[name], how)
        rows.append(row)
        report.row(name, *(cell for prefer in PREFERENCES for cell in vars(row[prefer]).values()))
        if beyond > 1e-6:
            report.fault(f"{name}: a trial of about as many cycles loses {beyond:.2%} less")
    for prefer in PREFERENCES:
        chosen = [row[prefer] for row in rows]
        report.remark(
            f"{prefer}: {statistics.mean(one.more for one in chosen):.2%} more model cycles than "
            f"the fewest found, mean loss {statistics.mean(one.mean_loss for one in chosen):.2%}, "
            f"worst {max(one.worst_loss for one in chosen):.0%}, over {len(rows)} jobs"
        )
