"""Jobs at a glance, counted by the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.jobs.claims import is_held, owner_of
from db.jobs.owner import Owner
from db.models import JobRow, MeasurementRow, TrialRow
from db.records import job_record
from tuner.records.outcome import Outcome
from tuner.records.trial import Job, JobState


@dataclass(frozen=True)
class JobSummary:
    """A job with its trials counted, not loaded.

    ``outcomes`` has the outcomes that occurred, ``pending`` counts trials handed out and not
    finished, ``best_cycles`` is of the best verified trial. ``owner`` is the process that works
    on it now. ``interrupted`` means that the job says ``running`` but its process is gone: it
    can be resumed.
    """

    job: Job
    outcomes: Mapping[Outcome, int] = field(hash=False)
    pending: int
    best_cycles: int | None
    owner: Owner | None
    interrupted: bool

    @property
    def finished(self) -> int:
        """Trials of every outcome."""
        return sum(self.outcomes.values())


def summaries_of(session: Session, rows: Sequence[JobRow]) -> list[JobSummary]:
    """The summaries of ``rows``, in their order, in one more query however many they are."""
    counts: dict[str, dict[Outcome | None, int]] = {row.id: {} for row in rows}
    best: dict[str, int | None] = {}
    grouped = (
        select(TrialRow.job_id, TrialRow.outcome, func.count(), func.min(MeasurementRow.cycles))
        .outerjoin(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(TrialRow.job_id.in_(counts))
        .group_by(TrialRow.job_id, TrialRow.outcome)
    )
    for job_id, outcome, count, cycles in session.execute(grouped):
        counts[job_id][outcome] = count
        if outcome is Outcome.OK:
            best[job_id] = cycles
    return [_summary(row, counts[row.id], best.get(row.id)) for row in rows]


def _summary(
    row: JobRow, counts: Mapping[Outcome | None, int], best_cycles: int | None
) -> JobSummary:
    held = is_held(row)
    return JobSummary(
        job=job_record(row),
        outcomes={outcome: counts[outcome] for outcome in Outcome if outcome in counts},
        pending=counts.get(None, 0),
        best_cycles=best_cycles,
        owner=owner_of(row) if held else None,
        interrupted=row.state is JobState.RUNNING and not held,
    )
