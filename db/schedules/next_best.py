"""What takes the place of a schedule that is quarantined: the next best of the trials."""

from __future__ import annotations

import contextlib

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from db.failure import DamagedRowError
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
from tuner.records.trial import Schedule

_MOST_DAMAGED = 20
"""So many trials are looked at for one whose row is whole."""


def next_best(session: Session, row: ScheduleRow) -> Schedule | None:
    """The fastest trial, or promotion, of the problem, fidelity and toolchain of ``row`` whose
    config and object are not quarantined there; ``None`` if there is none."""
    problem = problem_record(session.get_one(ProblemRow, row.problem_id))
    tried = (
        select(TrialRow, JobRow, MeasurementRow, ArtifactRow)
        .join(JobRow, TrialRow.job_id == JobRow.id)
        .join(ArtifactRow, TrialRow.artifact_digest == ArtifactRow.digest)
        .where(JobRow.problem_id == row.problem_id, JobRow.audience == row.audience)
        .where(ArtifactRow.symbol == problem.symbol)
        .where(MeasurementRow.fidelity == row.fidelity)
        .where(MeasurementRow.cache == row.measurement.cache)
        .where(~_is_quarantined(row))
        .order_by(MeasurementRow.cycles, TrialRow.job_id, TrialRow.number)
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
    return min(found, key=lambda schedule: schedule.measurement.cycles, default=None)


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
