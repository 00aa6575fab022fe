"""The doubt about the best of a job that has ended, worked out once in a process.

It prices every trial of the job again, which takes milliseconds to seconds; pages and programs ask
for the job again and again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from db.jobs.queries import JobSummary
from db.jobs.trials import key_trials
from db.sql_store import SqlStore
from tuner.jobs.job_result import doubt_of_job

if TYPE_CHECKING:
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


@dataclass(frozen=True)
class _Asked:
    """A job as it ended: its id and its number of trials."""

    job: str
    finished: int
    store: SqlStore = field(compare=False)


@lru_cache(maxsize=_KEPT)
def _worked_out(asked: _Asked) -> Doubt | Unknown | None:
    best = key_trials(asked.store, asked.job).best
    return doubt_of_job(asked.store.job(asked.job), asked.store, best)
