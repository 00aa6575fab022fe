"""Writes results: artifacts, trials, measurements and schedules, within a transaction.

All functions expect that the transaction holds the claim on the job (:func:`db.jobs.claims.hold`).
Statements are written out rather than left to the session's unit of work: their order matters,
and a trial costs a fixed handful of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Insert, delete, insert, select, update
from sqlalchemy.orm import Session

from db import catalogue
from db.files.artifacts import LOST_FILE, ArtifactFiles, StoredArtifact
from db.models import ArtifactRow, JobRow, MeasurementRow, PromotionRow, ScheduleRow, TrialRow
from db.records import measurement_record, toolchain_record
from db.schedules.validation import seal_of
from tuner.codegen.judged import judge
from tuner.errors import InternalError, StoreError
from tuner.records.candidate import Artifact, Measurement
from tuner.records.outcome import Outcome
from tuner.records.trial import PendingTrial, Promotion, Schedule, Trial
from tuner.store import toolchain_of


def add_artifact(
    session: Session,
    files: ArtifactFiles,
    job_id: str,
    artifact: Artifact,
    stored: StoredArtifact | None,
) -> None:
    """The row of an artifact whose file is on disk (``stored``).

    If the artifact is known, the kinds of files it lacks are added, and a file that was lost or
    damaged is written again.
    """
    if stored is not None:
        toolchain = select(JobRow.toolchain_id).where(JobRow.id == job_id).scalar_subquery()
        values = {"digest": stored.digest, "toolchain_id": toolchain, "created_at": time.time()}
        if catalogue.insert_unless_there(session, ArtifactRow, values | _columns(stored)):
            return
    row = session.get_one(
        ArtifactRow, artifact.digest, populate_existing=True, with_for_update=True
    )
    try:
        first = files.read(row.digest, row.symbol, row.file_digest)
    except StoreError:
        first = artifact
    whole = files.write(replace(first, files={**artifact.files, **first.files}))
    if whole.file_digest != row.file_digest:
        session.execute(
            update(ArtifactRow).where(ArtifactRow.digest == row.digest).values(**_columns(whole))
        )


def _replace_if_lost(session: Session, files: ArtifactFiles, stored: StoredArtifact) -> None:
    row = session.get_one(ArtifactRow, stored.digest, populate_existing=True, with_for_update=True)
    try:
        files.read(row.digest, row.symbol, row.file_digest)
    except StoreError:
        session.execute(
            update(ArtifactRow).where(ArtifactRow.digest == row.digest).values(**_columns(stored))
        )


def _columns(stored: StoredArtifact) -> dict[str, Any]:
    return {
        "symbol": stored.symbol,
        "files": dict(stored.files),
        "file_digest": stored.file_digest,
        "object_bytes": stored.object_bytes,
        "stored_bytes": stored.stored_bytes,
    }


def finish_trial(session: Session, job_id: str, trial: Trial) -> None:
    """The row of ``trial`` with its outcome: its pending row if it has one, else a new one.

    A trial that has ended before breaks the primary key, and the transaction with it.
    """
    measurement_id = None
    if trial.measurement is not None:
        if trial.artifact_digest is None:
            raise InternalError(f"trial {trial.number} is ok but names no artifact")
        measurement_id = add_measurement(session, trial.measurement, trial.artifact_digest)
    values = {
        "config": trial.config.as_dict(),
        "config_digest": trial.config.digest,
        "origin": trial.origin,
        "outcome": trial.outcome,
        "measurement_id": measurement_id,
        "artifact_digest": trial.artifact_digest,
        "duplicate_of": trial.duplicate_of,
        "error": trial.error,
        "compile_s": trial.timings.compile_s,
        "link_s": trial.timings.link_s,
        "run_s": trial.timings.run_s,
        "overhead_s": trial.timings.overhead_s,
        "started_at": trial.started_at,
        "finished_at": trial.finished_at,
    }
    pending = update(TrialRow).where(
        TrialRow.job_id == job_id, TrialRow.number == trial.number, TrialRow.outcome.is_(None)
    )
    if catalogue.rows_changed(session, pending.values(**values)) == 0:
        session.execute(insert(TrialRow).values(job_id=job_id, number=trial.number, **values))


def start_trial(session: Session, job_id: str, trial: PendingTrial) -> None:
    """The row of a trial that is handed out. Handing out a pending one again changes nothing."""
    values = {
        "job_id": job_id,
        "number": trial.number,
        "config": trial.config.as_dict(),
        "config_digest": trial.config.digest,
        "origin": trial.origin,
        "started_at": time.time(),
    }
    if not catalogue.insert_unless_there(session, TrialRow, values, keys=("job_id", "number")):
        row = session.get_one(TrialRow, (job_id, trial.number), populate_existing=True)
        if row.outcome is not None:
            raise InternalError(f"trial {trial.number} of job {job_id} has ended before")


def add_measurement(session: Session, measurement: Measurement, artifact_digest: str) -> int:
    """The row of a new measurement of a stored artifact."""
    values = measurement.as_dict() | {"artifact_digest": artifact_digest}
    return session.execute(
        insert(MeasurementRow).values(**values).returning(MeasurementRow.id)
    ).scalar_one()


def offer_schedule(session: Session, schedule: Schedule) -> None:
    """Makes ``schedule`` the stored one unless the same toolchain already has one as fast.

    A quarantined schedule does not come back, neither by its config nor by its bytes, unless only
    its artifact's file was wrong: that was rewritten just now.
    """
    toolchain_of(schedule)  # refuses a provenance that is not whole
    job, trial = schedule.provenance["job"], schedule.provenance["trial"]
    whose = session.execute(select(JobRow.tenant, JobRow.audience).where(JobRow.id == job)).one()
    origin = {"job_id": job, "trial_number": trial, **whose._mapping}
    _offer(session, schedule, schedule.public_id, origin)


def import_schedule(
    session: Session,
    files: ArtifactFiles,
    schedule: Schedule,
    name: str,
    stored: StoredArtifact,
    *,
    used_at: float,
) -> bool:
    """Offers a schedule that came from elsewhere as ``name``; says whether it is the stored one
    now. A toolchain that is new here counts as used at ``used_at``. Its artifact's file is on
    disk (``stored``), and takes the place of one that was lost or damaged. It is shared."""
    toolchain = catalogue.toolchain_id(session, toolchain_of(schedule), used_at)
    values = {"digest": stored.digest, "toolchain_id": toolchain, "created_at": time.time()}
    if not catalogue.insert_unless_there(session, ArtifactRow, values | _columns(stored)):
        _replace_if_lost(session, files, stored)
    origin = {"job_id": None, "trial_number": None, "tenant": "", "audience": ""}
    return _offer(session, schedule, name, origin)


def _offer(session: Session, schedule: Schedule, name: str, origin: Mapping[str, Any]) -> bool:
    measurement = schedule.measurement
    key = {
        "problem_id": catalogue.problem_id(session, schedule.problem),
        "fidelity": measurement.fidelity,
        "toolchain_id": catalogue.toolchain_id(session, toolchain_of(schedule)),
        "audience": origin["audience"],
    }
    if _is_quarantined(session, key, schedule):
        return False
    handed_out = select(ScheduleRow.cycles).filter_by(**key, quarantined_at=None)
    cycles = session.scalar(handed_out)
    if cycles is not None and cycles <= measurement.cycles:
        return False
    provenance = dict(schedule.provenance)
    del provenance["toolchain"]  # it is a row, shared by many schedules
    values = {
        "cycles": measurement.cycles,
        "cache": measurement.cache,
        "config": schedule.config.as_dict(),
        "config_digest": schedule.config.digest,
        "generator": schedule.generator,
        "judged": judge(schedule.problem, schedule.generator, schedule.config),
        "measurement_id": _measurement_id(session, schedule),
        "artifact_digest": schedule.artifact_digest,
        "symbol": schedule.symbol,
        "seal": seal_of(
            schedule.problem,
            config_digest=schedule.config.digest,
            generator=schedule.generator,
            symbol=schedule.symbol,
            artifact_digest=schedule.artifact_digest,
        ),
        **{name: value for name, value in origin.items() if name not in key},
        "provenance": provenance,
        "public_id": name,
        "quarantined_at": None,
        "quarantine_reason": "",
        "updated_at": time.time(),
    }
    session.execute(_upsert_if_better(session, key, values))
    return True


def _is_quarantined(session: Session, key: Mapping[str, Any], offered: Schedule) -> bool:
    """Whether ``offered`` is quarantined, under any owner. A quarantine for a lost file alone ends
    now."""
    of_anybody = {name: value for name, value in key.items() if name != "audience"}
    quarantined = session.scalars(
        select(ScheduleRow)
        .filter_by(**of_anybody)
        .where(ScheduleRow.quarantined_at.is_not(None))
        .where(
            (ScheduleRow.config_digest == offered.config.digest)
            | (ScheduleRow.artifact_digest == offered.artifact_digest)
        )
    ).all()
    if any(not row.quarantine_reason.startswith(LOST_FILE) for row in quarantined):
        return True
    for row in quarantined:
        session.execute(delete(ScheduleRow).where(ScheduleRow.id == row.id))
    return False


def _measurement_id(session: Session, schedule: Schedule) -> int:
    """The measurement of the schedule's trial, or of its promotion, by which it was chosen."""
    key = (schedule.provenance["job"], schedule.provenance["trial"])
    for source in (session.get(PromotionRow, key), session.get(TrialRow, key)):
        row = None if source is None else source.measurement
        if row is not None and measurement_record(row) == schedule.measurement:
            return row.id
    return add_measurement(session, schedule.measurement, schedule.artifact_digest)


def _upsert_if_better(session: Session, key: dict[str, Any], values: dict[str, Any]) -> Insert:
    """One statement, so that two jobs that offer at once cannot overwrite the faster one."""
    handed_out = ScheduleRow.quarantined_at.is_(None)
    if session.get_bind().dialect.name == "sqlite":
        from sqlalchemy.dialects import sqlite

        offer = sqlite.insert(ScheduleRow).values(**key, **values)
        return offer.on_conflict_do_update(
            index_elements=list(key),
            index_where=handed_out,
            set_=values,
            where=offer.excluded.cycles < ScheduleRow.cycles,
        )
    from sqlalchemy.dialects import postgresql

    offered = postgresql.insert(ScheduleRow).values(**key, **values)
    return offered.on_conflict_do_update(
        index_elements=list(key),
        index_where=handed_out,
        set_=values,
        where=offered.excluded.cycles < ScheduleRow.cycles,
    )


def keep_promotion(session: Session, job_id: str, promotion: Promotion) -> None:
    """The row of ``promotion``: a new one, or the pending one with its outcome.

    Handing out a pending one again changes nothing. One that ends twice, or whose trial is not
    stored, breaks a key, and the transaction with it.
    """
    key = {"job_id": job_id, "trial_number": promotion.trial}
    digest = _promotable(session, job_id, promotion.trial)
    toolchain = catalogue.used_toolchain_id(session, promotion.toolchain)
    if promotion.outcome is None:
        values = {**key, "toolchain_id": toolchain, "started_at": promotion.started_at}
        if not catalogue.insert_unless_there(session, PromotionRow, values, tuple(key)):
            row = session.get_one(PromotionRow, tuple(key.values()), populate_existing=True)
            if row.outcome is not None:
                raise InternalError(
                    f"the promotion of trial {promotion.trial} of job {job_id} has ended before"
                )
        return
    measurement_id = None
    if promotion.measurement is not None:
        measurement_id = add_measurement(session, promotion.measurement, digest)
    values = {
        "toolchain_id": toolchain,
        "outcome": promotion.outcome,
        "measurement_id": measurement_id,
        "error": promotion.error,
        "started_at": promotion.started_at,
        "finished_at": promotion.finished_at,
    }
    pending = update(PromotionRow).where(
        PromotionRow.job_id == job_id,
        PromotionRow.trial_number == promotion.trial,
        PromotionRow.outcome.is_(None),
    )
    if catalogue.rows_changed(session, pending.values(**values)) == 0:
        session.execute(insert(PromotionRow).values(**key, **values))


def _promotable(session: Session, job_id: str, number: int) -> str:
    """The digest of the object of an ``ok`` trial."""
    wanted = select(TrialRow.artifact_digest).where(
        TrialRow.job_id == job_id, TrialRow.number == number, TrialRow.outcome == Outcome.OK
    )
    digest = session.scalar(wanted)
    if digest is None:
        raise InternalError(f"trial {number} is not stored as ok: it cannot be promoted")
    return digest


def promotions_of(session: Session, job_id: str) -> list[Promotion]:
    """All of a job, pending ones too, by the numbers of their trials."""
    wanted = (
        select(PromotionRow)
        .where(PromotionRow.job_id == job_id)
        .order_by(PromotionRow.trial_number)
    )
    return [_record(row) for row in session.scalars(wanted)]


def _record(row: PromotionRow) -> Promotion:
    return Promotion(
        trial=row.trial_number,
        toolchain=toolchain_record(row.toolchain),
        outcome=row.outcome,
        measurement=None if row.measurement is None else measurement_record(row.measurement),
        error=row.error,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
