"""The events of a job, numbered, so that a client that lost its connection can catch up.

Events are written in the transaction of what they tell, which holds the job's row: their numbers
rise in the order of commits, without gaps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, bindparam, func, select
from sqlalchemy.orm import Session

from db.database import Database
from db.jobs.trials import SEARCHED
from db.leaders import RANKED
from db.models import JobEventRow, JobRow, MeasurementRow, TrialRow
from db.records import job_record, trial_record
from db.statements import Upsert, insert_or_skip
from tuner.executor.baselines import is_foreign
from tuner.records.trial import JobState, Promotion, RemainingGain, Trial


@dataclass(frozen=True)
class JobEvent:
    """One event. ``kind`` is ``trial`` (``data`` has its ``number``), ``promotion`` (one came back:
    ``trial``, ``outcome``, ``cycles``), ``estimate`` (of the remaining gain: ``expected``,
    ``bound``) or ``state`` (``state``, ``paused``, ``note``). ``at`` is Unix time in seconds."""

    sequence: int
    at: float
    kind: str
    data: Mapping[str, Any] = field(hash=False)


NewEvent = tuple[str, dict[str, Any]]
"""Its kind and data."""


def of_commit(
    finished: Sequence[Trial], promotions: Sequence[Promotion], remaining: RemainingGain | None
) -> list[NewEvent]:
    """Trials have finished, the promotions that have an outcome have come back, and the remaining
    gain was estimated again."""
    events: list[NewEvent] = [("trial", {"number": trial.number}) for trial in finished]
    for one in promotions:
        if one.outcome is not None:
            cycles = None if one.measurement is None else one.measurement.cycles
            told = {"trial": one.trial, "outcome": one.outcome.value, "cycles": cycles}
            events.append(("promotion", told))
    if remaining is not None:
        events.append(("estimate", asdict(remaining)))
    return events


def of_state(state: JobState, *, paused: bool = False, note: str = "") -> NewEvent:
    """The job is in this state now."""
    return "state", {"state": state.value, "paused": paused, "note": note}


def add(connection: Connection, job_id: str, events: Sequence[NewEvent]) -> None:
    """Stores the events by which the transaction has just raised the job's ``event_count``.

    Nothing happens where it was not raised, as a claim came too late: the event of that number is
    another's.
    """
    at = time.time()
    rows = [
        {"of_job": job_id, "job_id": job_id, "later": later, "at": at, "kind": kind, "data": data}
        for later, (kind, data) in enumerate(reversed(events))
    ]
    if rows:
        connection.execute(_add(connection.dialect.name), rows)


@lru_cache(maxsize=2)
def _add(dialect: str) -> Upsert:
    counted = select(JobRow.event_count).where(JobRow.id == bindparam("of_job")).scalar_subquery()
    statement = insert_or_skip(dialect, JobEventRow, ("job_id", "sequence"))
    return statement.values(sequence=counted - bindparam("later"))


def read_after(session: Session, job_id: str, sequence: int, limit: int) -> list[JobEvent]:
    """At most ``limit`` events of a job with numbers above ``sequence``, in their order."""
    wanted = (
        select(JobEventRow)
        .where(JobEventRow.job_id == job_id, JobEventRow.sequence > sequence)
        .order_by(JobEventRow.sequence)
        .limit(limit)
    )
    return [JobEvent(row.sequence, row.at, row.kind, row.data) for row in session.scalars(wanted)]


@dataclass(frozen=True)
class Told:
    """An event, its trial if it tells of one, and how the job stood just after it."""

    event: JobEvent
    trial: Trial | None
    finished: int
    best_cycles: int | None


def told_after(database: Database, job_id: str, sequence: int, limit: int) -> list[Told]:
    """At most ``limit`` events of a job (its whole id) numbered above ``sequence``."""
    with database.reading() as session:
        events = read_after(session, job_id, sequence, limit)
        if not events:
            return []
        numbers = [event.data["number"] for event in events if event.kind == "trial"]
        wanted = select(TrialRow).where(TrialRow.job_id == job_id, TrialRow.number.in_(numbers))
        trials = {row.number: trial_record(row) for row in session.scalars(wanted)}
        finished, best = _tally_at(session, job_id, sequence)
        spec = job_record(session.get_one(JobRow, job_id)).spec
    told = []
    for event in events:
        trial = trials[event.data["number"]] if event.kind == "trial" else None
        if trial is not None:
            finished += 1
            if trial.measurement is not None and not is_foreign(trial.origin):
                best = min(best or (math.inf, 0), (spec.ranked(trial)[0], trial.measurement.cycles))
        told.append(Told(event, trial, finished, best and best[1]))
    return told


def _tally_at(session: Session, job_id: str, sequence: int) -> tuple[int, tuple[float, int] | None]:
    """Finished trials, and what the best ranks by and its cycles, as of the event ``sequence``."""
    until = (
        select(JobEventRow.sequence)
        .select_from(JobEventRow)
        .join(
            TrialRow,
            (TrialRow.job_id == JobEventRow.job_id)
            & (TrialRow.number == JobEventRow.data["number"].as_integer()),
        )
        .where(JobEventRow.job_id == job_id, JobEventRow.sequence <= sequence)
        .where(JobEventRow.kind == "trial")
    )
    fastest = (
        until.join(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .where(SEARCHED)
        .with_only_columns(RANKED, MeasurementRow.cycles)
        .order_by(RANKED, TrialRow.number)
        .limit(1)
    )
    finished = session.scalar(until.with_only_columns(func.count())) or 0
    best = session.execute(fastest).first()
    return finished, None if best is None else (best[0], best[1])


def event_counts(database: Database, job_ids: Iterable[str]) -> Mapping[str, int]:
    """The number of the last event of each job: one small query for all that are followed."""
    wanted = select(JobRow.id, JobRow.event_count).where(JobRow.id.in_(list(job_ids)))
    with database.reading() as session:
        return {row.id: row.event_count for row in session.execute(wanted)}
