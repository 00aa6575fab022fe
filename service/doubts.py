"""The doubt about the best of a job that has ended, worked out once in a process; and which trial
that best is, where the job prefers a robust one.

It prices every trial of the job again, which takes milliseconds to seconds; pages and programs ask
for the job again and again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from db.jobs.queries import JobOverview, JobSummary
from db.jobs.trials import KeyTrials, find_trial, key_trials
from db.sql_store import SqlStore
from tuner.jobs.job_result import chosen_by, doubt_of_job

if TYPE_CHECKING:
    from tuner.records.trial import Trial
    from tuner.search.doubt import Doubt, Unknown

NOT_ENDED = "the job has not ended"
_KEPT = 256
"""Jobs whose doubt is kept."""


def doubt_of_ended(store: SqlStore, summary: JobSummary) -> Doubt | Unknown | None:
    """The doubt about the best of a job: unknown until it has ended."""
    if not summary.job.state.ended:
        from tuner.search.doubt import Unknown

        return Unknown(NOT_ENDED)
    return _worked_out(_Asked(summary.job.id, summary.finished, store))


def key_trials_of(store: SqlStore, summary: JobSummary) -> KeyTrials:
    """The trials of a job to look at first; the best is the one that the job prefers."""
    found, chosen = key_trials(store, summary.job.id), _chosen(store, summary)
    return found if chosen is None else replace(found, best=chosen)


def as_chosen(store: SqlStore, overview: JobOverview) -> JobOverview:
    """``overview`` of a job by itself, with the cycles of the trial that the job prefers."""
    chosen = _chosen(store, overview.summary)
    if chosen is None or chosen.measurement is None:
        return overview
    summary = replace(overview.summary, best_cycles=chosen.measurement.cycles)
    return replace(overview, summary=summary)


def _chosen(store: SqlStore, summary: JobSummary) -> Trial | None:
    """The robust trial of a job that prefers it; ``None`` if its best is the fastest one, as it is
    until the job has ended."""
    if summary.job.spec.prefer == "fastest":
        return None
    number = chosen_by(summary.job, doubt_of_ended(store, summary))
    return None if number is None else find_trial(store, summary.job.id, number)


@dataclass(frozen=True)
class _Asked:
    """A job as it ended: its id and its number of trials."""

    job: str
    finished: int
    store: SqlStore = field(compare=False)


@lru_cache(maxsize=_KEPT)
def _worked_out(asked: _Asked) -> Doubt | Unknown | None:
    return doubt_of_job(asked.store.job(asked.job), asked.store)
