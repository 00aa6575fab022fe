"""Writes results: artifacts, trials, measurements and schedules, within a transaction.

All functions expect that the transaction holds the claim on the job (:func:`db.jobs.claims.hold`).
Statements are written out rather than left to the session's unit of work: their order matters,
and a trial costs a fixed handful of them (:mod:`db.statements`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, CursorResult, insert, null, select, update
from sqlalchemy.orm import Session

from db import catalogue
from db.artifact_rows import add_measurement, insert_measurement
from db.models import PromotionRow, TrialRow
from db.records import measurement_record, toolchain_record
from db.statements import LastId, Upsert, insert_or_skip, upsert
from tuner.errors import InternalError
from tuner.records.outcome import Outcome
from tuner.records.trial import PendingTrial, Promotion, Trial


def finish_trial(connection: Connection, job_id: str, trial: Trial) -> CursorResult[Any]:
    """The row of ``trial`` with its outcome: its pending row if it has one, else a new one. Changes
    nothing if the trial has ended before."""
    measured = trial.measurement is not None
    if trial.measurement is not None:
        if trial.artifact_digest is None:
            raise InternalError(f"trial {trial.number} is ok but names no artifact")
        insert_measurement(connection, trial.measurement, trial.artifact_digest)
    values = {
        "job_id": job_id,
        "number": trial.number,
        "config": trial.config.as_dict(),
        "config_digest": trial.config.digest,
        "origin": trial.origin,
        "outcome": trial.outcome,
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
    return connection.execute(_finish(connection.dialect.name, measured), values)


_TRIAL = ("job_id", "number")


@lru_cache(maxsize=4)
def _finish(dialect: str, measured: bool) -> Upsert:
    """``measured`` trials have the measurement that was inserted just before."""
    measurement: Any = LastId() if measured else null()
    pending = TrialRow.outcome.is_(None)
    return upsert(dialect, TrialRow, _TRIAL, where=pending, measurement_id=measurement)


def start_trials(
    connection: Connection, job_id: str, trials: Sequence[PendingTrial]
) -> CursorResult[Any]:
    """The rows of trials that are handed out. Handing out a pending one again changes nothing."""
    now = time.time()
    rows = [
        {
            "job_id": job_id,
            "number": trial.number,
            "config": trial.config.as_dict(),
            "config_digest": trial.config.digest,
            "origin": trial.origin,
            "started_at": now,
        }
        for trial in trials
    ]
    return connection.execute(insert_or_skip(connection.dialect.name, TrialRow, _TRIAL), rows)


def require_pending(session: Session, job_id: str, trials: Sequence[PendingTrial]) -> None:
    """``InternalError`` if one of ``trials``, which were just handed out, has ended before."""
    ended = select(TrialRow.number).where(
        TrialRow.job_id == job_id,
        TrialRow.number.in_([trial.number for trial in trials]),
        TrialRow.outcome.is_not(None),
    )
    for number in session.scalars(ended):
        raise ended_before(job_id, number)


def ended_before(job_id: str, number: int) -> InternalError:
    """A trial that has ended was handed out, or came back, once more."""
    return InternalError(f"trial {number} of job {job_id} has ended before")


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
