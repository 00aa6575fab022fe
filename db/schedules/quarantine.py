"""Schedules that are never handed out: why, since when, what takes their place, and back again."""

from __future__ import annotations

import contextlib
import time

from sqlalchemy import ColumnElement, Select, and_, delete, or_, select, update
from sqlalchemy.orm import Session

from db.catalogue import rows_changed
from db.database import Database
from db.failure import DamagedRowError
from db.leaders import RANKED
from db.models import (
    ArtifactRow,
    JobRow,
    MeasurementRow,
    ProblemRow,
    PromotionRow,
    ScheduleRow,
    TrialRow,
)
from db.records import (
    job_record,
    measurement_record,
    problem_record,
    toolchain_record,
    trial_record,
)
from db.schedules.offering import offer_schedule, ranked
from db.schedules.serving import ServingRow
from tuner.records.trial import Schedule

_MOST_DAMAGED = 20
"""At most this many trials are looked at for one whose row is whole."""


def quarantine_row(database: Database, row: ServingRow, reason: str) -> bool:
    """Quarantines the schedule that was read as ``row``, unless it has been replaced since. The
    next best trial takes its place, if there is one."""
    with database.writing() as session:
        same = (
            select(ScheduleRow)
            .where(ScheduleRow.id == row.id, ScheduleRow.updated_at == row.updated_at)
            .where(ScheduleRow.artifact_digest == row.artifact_digest)
            .where(ScheduleRow.config_digest == row.config_digest)
            .where(ScheduleRow.quarantined_at.is_(None))
        )
        found = session.scalar(same)
        return found is not None and _withdraw(session, found, reason)


def quarantine(database: Database, public_id: str, reason: str) -> bool:
    """Quarantines the schedule called ``public_id``; whether there is such a schedule. The next
    best trial, if any, takes its place."""
    with database.writing() as session:
        found = session.scalars(_named(public_id)).all()
        for row in found:
            if row.quarantined_at is None:
                _withdraw(session, row, reason)
            else:
                _set(session, row, row.quarantined_at, reason)
        return bool(found)


def release(database: Database, public_id: str) -> bool:
    """Lets a schedule be handed out again, if it is better than the one that took its place;
    whether there is such a schedule."""
    with database.writing() as session:
        found = session.scalars(_named(public_id)).all()
        for row in found:
            if row.quarantined_at is not None:
                _bring_back(session, row)
        return bool(found)


def _named(public_id: str) -> Select[ScheduleRow]:
    return select(ScheduleRow).where(ScheduleRow.public_id == public_id)


def _withdraw(session: Session, row: ScheduleRow, reason: str) -> bool:
    """Sets ``row`` aside and offers the next best; false if another process did so just now."""
    if not _set(session, row, time.time(), reason):
        return False
    other = _next_best(session, row)
    if other is not None:
        offer_schedule(session, other)
    return True


def _bring_back(session: Session, row: ScheduleRow) -> None:
    instead = session.scalar(
        select(ScheduleRow)
        .where(ScheduleRow.problem_id == row.problem_id, ScheduleRow.fidelity == row.fidelity)
        .where(ScheduleRow.toolchain_id == row.toolchain_id)
        .where(ScheduleRow.audience == row.audience, ScheduleRow.prefer == row.prefer)
        .where(ScheduleRow.quarantined_at.is_(None))
    )
    if instead is None:
        _set(session, row, None, "")
        return
    figure = ranked(row.prefer).key
    better = row if getattr(row, figure) < getattr(instead, figure) else instead
    worse = instead if better is row else row
    session.execute(delete(ScheduleRow).where(ScheduleRow.id == worse.id))
    if better is row:
        _set(session, row, None, "")


def _set(session: Session, row: ScheduleRow, since: float | None, reason: str) -> bool:
    """Marks ``row`` unless its mark has changed meanwhile."""
    marked = update(ScheduleRow).where(
        ScheduleRow.id == row.id,
        ScheduleRow.quarantined_at.is_not_distinct_from(row.quarantined_at),
    )
    values = {"quarantined_at": since, "quarantine_reason": reason}
    changed = rows_changed(session, marked.values(**values)) == 1
    session.refresh(row)
    return changed


def _next_best(session: Session, row: ScheduleRow) -> Schedule | None:
    """The best trial, or promotion, of the problem, rule, fidelity and toolchain of ``row`` whose
    config and object are not quarantined there, if any."""
    problem = problem_record(session.get_one(ProblemRow, row.problem_id))
    tried = (
        select(TrialRow, JobRow, MeasurementRow, ArtifactRow)
        .join(JobRow, TrialRow.job_id == JobRow.id)
        .join(ArtifactRow, TrialRow.artifact_digest == ArtifactRow.digest)
        .where(JobRow.problem_id == row.problem_id, JobRow.audience == row.audience)
        .where(or_(JobRow.prefer == row.prefer, MeasurementRow.expected_cycles.is_(None)))
        .where(ArtifactRow.symbol == problem.symbol)
        .where(MeasurementRow.fidelity == row.fidelity)
        .where(MeasurementRow.cache == row.measurement.cache)
        .where(~_is_quarantined(row))
        .order_by(RANKED, TrialRow.job_id, TrialRow.number)
        .limit(_MOST_DAMAGED)
    )
    by_trial = tried.join(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id).where(
        JobRow.toolchain_id == row.toolchain_id
    )
    same = and_(
        PromotionRow.job_id == TrialRow.job_id, PromotionRow.trial_number == TrialRow.number
    )
    by_promotion = (
        tried.join(PromotionRow, same)
        .join(MeasurementRow, PromotionRow.measurement_id == MeasurementRow.id)
        .where(PromotionRow.toolchain_id == row.toolchain_id)
    )
    found: list[Schedule] = []
    for wanted, promoted in ((by_trial, False), (by_promotion, True)):
        for rows in session.execute(wanted):
            with contextlib.suppress(DamagedRowError):
                found.append(_schedule(row, *rows, promoted=promoted))
                break
    return min(found, key=lambda schedule: schedule.ranked_cycles, default=None)


def _is_quarantined(row: ScheduleRow) -> ColumnElement[bool]:
    """Whether a trial's config, or an object of the same bytes, is quarantined beside ``row``."""
    quarantined = (
        (ScheduleRow.problem_id == row.problem_id)
        & (ScheduleRow.fidelity == row.fidelity)
        & (ScheduleRow.toolchain_id == row.toolchain_id)
        & ScheduleRow.quarantined_at.is_not(None)
        & (
            (ScheduleRow.config_digest == TrialRow.config_digest)
            | (ScheduleRow.artifact_digest == TrialRow.artifact_digest)
        )
    )
    return select(ScheduleRow.id).where(quarantined).exists()


def _schedule(
    row: ScheduleRow,
    trial: TrialRow,
    job: JobRow,
    measurement: MeasurementRow,
    artifact: ArtifactRow,
    *,
    promoted: bool,
) -> Schedule:
    return Schedule(
        problem=problem_record(job.problem),
        config=trial_record(trial).config,
        generator=job.generator,
        measurement=measurement_record(measurement),
        artifact_digest=artifact.digest,
        symbol=artifact.symbol,
        provenance=job_record(job).provenance(
            trial.number, trial.finished_at, toolchain_record(row.toolchain) if promoted else None
        ),
    )
