"""A job's events with the trials they tell of, for clients that follow it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.jobs import events as job_events
from db.jobs.events import JobEvent
from db.models import JobEventRow, JobRow, MeasurementRow, TrialRow
from db.records import trial_record
from db.sql_store import SqlStore
from tuner.records.trial import Trial


@dataclass(frozen=True)
class Told:
    """An event, its trial if it tells of one, and how the job stood just after it."""

    event: JobEvent
    trial: Trial | None
    finished: int
    best_cycles: int | None


def told_after(store: SqlStore, job_id: str, sequence: int, limit: int) -> list[Told]:
    """At most ``limit`` events of a job (its whole id) numbered above ``sequence``."""
    with store.reading() as session:
        events = job_events.read_after(session, job_id, sequence, limit)
        if not events:
            return []
        numbers = [event.data["number"] for event in events if event.kind == "trial"]
        wanted = select(TrialRow).where(TrialRow.job_id == job_id, TrialRow.number.in_(numbers))
        trials = {row.number: trial_record(row) for row in session.scalars(wanted)}
        finished, best = _standing(session, job_id, sequence)
    told = []
    for event in events:
        trial = trials[event.data["number"]] if event.kind == "trial" else None
        if trial is not None:
            finished += 1
            if trial.measurement is not None:
                cycles = trial.measurement.cycles
                best = cycles if best is None else min(best, cycles)
        told.append(Told(event, trial, finished, best))
    return told


def _standing(session: Session, job_id: str, sequence: int) -> tuple[int, int | None]:
    """Finished trials and best cycles as of the event ``sequence``."""
    until = (
        select(func.count(), func.min(MeasurementRow.cycles))
        .select_from(JobEventRow)
        .join(
            TrialRow,
            (TrialRow.job_id == JobEventRow.job_id)
            & (TrialRow.number == JobEventRow.data["number"].as_integer()),
        )
        .outerjoin(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(JobEventRow.job_id == job_id, JobEventRow.sequence <= sequence)
        .where(JobEventRow.kind == "trial")
    )
    finished, best = session.execute(until).one()
    return finished, best


def event_counts(store: SqlStore, job_ids: Iterable[str]) -> Mapping[str, int]:
    """The number of the last event of each job: one small query for all that are followed."""
    wanted = select(JobRow.id, JobRow.event_count).where(JobRow.id.in_(list(job_ids)))
    with store.reading() as session:
        return {row.id: row.event_count for row in session.execute(wanted)}
