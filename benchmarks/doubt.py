"""What the robust default costs at the model's own costs, and what it saves over plausible ones.

Every job is searched twice: for the fastest schedule, and as by default for the one of fewest
expected cycles. What both chose is priced at points all over the box of plausible costs
(``tuner.search.doubt``). Losses are against the fastest schedule that either search found at the
same point: 0 % everywhere is a choice without doubt. The jobs are the shipped kernels at their
default shapes and some others, those that are also written by hand, and the everyday pipelines.
It fails if a default best loses more than 2 % on average while a trial of its job that takes at
most 1 % more cycles loses less.

Told besides, and failed for: the share of trials that built an object that their job had (at most
5 % over all jobs), and configs that got no trial, as they would make a known object, but do not.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from benchmarks.everyday.pipelines import PIPELINES
from benchmarks.hand.bench import JOBS as BY_HAND
from benchmarks.harness import Report, add_names, tell
from tuner.codegen import find_generator
from tuner.errors import CandidateError
from tuner.jobs.tuning import keep_pipeline, tune
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import kernel_names
from tuner.problem.target import find_target
from tuner.records.candidate import CACHE_STATES, PREFERENCES, Candidate, Preference
from tuner.records.trial import CountedTrial, Trial
from tuner.search import loop
from tuner.search.doubt import TIE, Doubt, doubt_of
from tuner.search.known import KnownObjects
from tuner.space import Config

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

MOST_BUILT_AGAIN = 0.05
"""Of trials, that made an object which their job had."""
SKIPS_TRIED = 8
"""Of each search, drawn from all."""

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


@dataclass
class Spent:
    """Trials, those of them that built an object that their job had, configs that got no trial, and
    how many of those were ``tried`` and would have made another object than was thought."""

    trials: int = 0
    built_again: int = 0
    skipped: int = 0
    tried: int = 0
    wrong: list[str] = field(default_factory=list)

    def count(self, trials: Sequence[Trial], skips: Mapping[Candidate, int]) -> None:
        """Adds a job: its trials, and the trial whose object each skipped candidate would make."""
        self.trials += len(trials)
        self.built_again += sum(one.duplicate_of is not None for one in trials)
        self.skipped += len(skips)
        made = {one.number: one.artifact_digest for one in trials}
        drawn = random.Random(SEED).sample(list(skips.items()), min(SKIPS_TRIED, len(skips)))
        for candidate, number in drawn:
            with find_generator(candidate.generator)() as generator:
                try:
                    digest: str | None = generator.compile(candidate).digest
                except CandidateError:
                    digest = None
            self.tried += 1
            if digest != made[number]:
                self.wrong.append(
                    f"{candidate.problem}: {candidate.config.as_dict()}, not {number}"
                )


@contextmanager
def skips_seen() -> Iterator[dict[Candidate, int]]:
    """What searches skip meanwhile, with the number of the trial that is thought to be the same."""
    seen: dict[Candidate, int] = {}

    class Seen(KnownObjects):
        def twin(self, config: Config) -> int | None:
            number = super().twin(config)
            if number is not None:
                seen[replace(self._example, config=config)] = number
            return number

    loop.KnownObjects = Seen  # type: ignore[misc]
    try:
        yield seen
    finally:
        loop.KnownObjects = KnownObjects  # type: ignore[misc]


def choices(
    job: Tune, options: Mapping[str, Any], spent: Spent
) -> tuple[Mapping[Preference, Choice], float]:
    """What both searches choose, and what the default best loses on average beyond the trial of its
    job that takes about as many cycles and loses least. Adds to ``spent``."""
    target = find_target(options["target"])
    pool: list[CountedTrial] = []
    best: dict[Preference, tuple[int, str]] = {}
    beyond = 0.0
    for prefer in PREFERENCES:
        store = MemoryStore()
        with skips_seen() as skips:
            done = job(store=store, seed=SEED, prefer=prefer, **options)
        if done.best is None:
            raise SystemExit(f"{prefer}: {done.job.note}")
        spent.count(store.trials(done.job.id), skips)
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
    spent = Spent()
    for name in given.names:
        tell(name)
        row, beyond = choices(JOBS[name], how, spent)
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
    report.remark(
        f"{spent.built_again} of {spent.trials} trials built an object that their job had; "
        f"{spent.skipped} configs got no trial, and of {spent.tried} of them that were compiled "
        f"{len(spent.wrong)} make another object than was thought"
    )
    if given.names == list(JOBS) and spent.built_again > MOST_BUILT_AGAIN * spent.trials:
        report.fault(f"more than {MOST_BUILT_AGAIN:.0%} of trials built a known object")
    for wrong in spent.wrong:
        report.fault(f"skipped wrongly: {wrong}")
