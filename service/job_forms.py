"""Jobs, their trials and events as JSON, with how they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.json_forms import job_json, peak_cycles, trial_json
from service.ladder_forms import ladder_json
from tuner.errors import UserError
from tuner.trial import JobState

if TYPE_CHECKING:
    from db.job_feed import Told
    from db.job_queries import JobStanding, KeyTrials, PromotedTrials
    from db.summary import JobSummary
    from tuner.trial import Job, Trial


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
        **_pace(summary),
    }


def _pace(summary: JobSummary) -> dict[str, float | None]:
    """Trials a second over all sessions of the job, and the seconds it still needs at that rate
    while it runs."""
    job, finished = summary.job, summary.finished
    rate = finished / job.spent_s if finished and job.spent_s > 0 else None
    left: list[float] = []
    budget = job.spec.budget
    if rate is not None and budget.trials is not None:
        left.append(max(0, budget.trials - finished) / rate)
    if budget.seconds is not None:
        left.append(max(0.0, budget.seconds - job.spent_s))
    runs = job.state is JobState.RUNNING and not summary.interrupted
    return {
        "rate_trials_per_s": None if rate is None else round(rate, 3),
        "eta_s": round(min(left), 1) if runs and left else None,
    }


def detail_json(
    standing: JobStanding, trials: KeyTrials, promoted: PromotedTrials
) -> dict[str, Any]:
    """A job by itself: with the trials to look at first, what became of those that were promoted,
    and what it was made with."""
    job = standing.summary.job
    peak = peak_of(job)

    def form(trial: Trial | None) -> dict[str, Any] | None:
        return None if trial is None else full_trial_json(trial, peak)

    return {
        **standing_json(standing),
        "default": form(trials.default),
        "textbook": form(trials.textbook),
        "best": form(trials.best),
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
