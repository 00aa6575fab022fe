"""Writes and reads promotions, within a transaction that holds the claim on the job."""

from __future__ import annotations

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from db import catalogue
from db.jobs.results import add_measurement
from db.models import PromotionRow, TrialRow
from db.records import measurement_record, toolchain_record
from tuner.errors import InternalError
from tuner.records.outcome import Outcome
from tuner.records.promotion import Promotion


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
