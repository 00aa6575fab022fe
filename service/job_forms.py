"""Jobs, their trials and events as JSON, with how they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.json_forms import job_json, peak_cycles, trial_json
from service.ladder_forms import ladder_json
from tuner.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from db.jobs.feed import Told
    from db.jobs.queries import JobStanding
    from db.jobs.trial_queries import KeyTrials, PromotedTrials
    from tuner.records.trial import Job, Trial


def peak_of(job: Job) -> float | None:
    """Cycles at the HVX peak; ``None`` if the kernel is not known here (any more)."""
    try:
        return peak_cycles(job.spec.problem)
    except UserError:
        return None


def standing_json(standing: JobStanding) -> dict[str, Any]:
    """A job as lists show it: with its trials counted and its best so far."""
    summary = standing.summary
    best, peak = summary.best_cycles, peak_of(summary.job)
    return {
        **job_json(summary.job),
        "interrupted": summary.interrupted,
        "outcomes": {outcome.value: count for outcome, count in summary.outcomes.items()},
        "finished": summary.finished,
        "pending": summary.pending,
        "best_cycles": best,
        "default_cycles": standing.default_cycles,
        "textbook_cycles": standing.textbook_cycles,
        "share_of_peak": None if best is None or peak is None else round(peak / best, 4),
        "rate_trials_per_s": _rounded(standing.rate_per_s, 3),
        "eta_s": _rounded(standing.eta_s, 1),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def detail_json(
    standing: JobStanding, trials: KeyTrials, front: Sequence[Trial], promoted: PromotedTrials
) -> dict[str, Any]:
    """A job by itself: with the trials to look at first, those on its Pareto ``front``, what became
    of those that were promoted, and what it was made with."""
    job = standing.summary.job
    peak = peak_of(job)

    def form(trial: Trial | None) -> dict[str, Any] | None:
        return None if trial is None else full_trial_json(trial, peak)

    return {
        **standing_json(standing),
        "default": form(trials.default),
        "textbook": form(trials.textbook),
        "best": form(trials.best),
        "pareto": [full_trial_json(trial, peak) for trial in front],
        "peak_cycles": peak,
        "toolchain": dict(job.toolchain),
        "space_digest": job.space_digest,
        "ladder": ladder_json(job, promoted.trials, promoted.promotions, peak or 0.0),
    }


def full_trial_json(trial: Trial, peak: float | None) -> dict[str, Any]:
    """A trial with when it ran and where its time went."""
    form = trial_json(trial, peak or 0.0)
    if peak is None:
        form["share_of_peak"] = None
    timings = trial.timings
    return {
        **form,
        "started_at": trial.started_at,
        "finished_at": trial.finished_at,
        "timings": {
            "compile_s": timings.compile_s,
            "link_s": timings.link_s,
            "run_s": timings.run_s,
            "overhead_s": timings.overhead_s,
        },
    }


def told_json(told: Told, peak: float | None) -> dict[str, Any]:
    """The data of an event."""
    at = told.event.at
    if told.trial is None:
        return {**told.event.data, "at": at}
    return {
        **full_trial_json(told.trial, peak),
        "finished": told.finished,
        "best_cycles": told.best_cycles,
        "at": at,
    }
