"""Writes results: artifacts, trials, measurements and schedules, within a transaction.

The functions expect that the transaction holds the claim on the job (:func:`db.jobs.claims.hold`).
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
from db.artifact_rows import add_artifact, add_measurement, complete_artifact, insert_measurement
from db.database import Database, Part
from db.files.kept import Artifacts
from db.jobs import events as job_events
from db.jobs.claims import hold
from db.models import PromotionRow, TrialRow
from db.schedules.offering import offer_schedule
from db.statements import LastId, Upsert, changed, insert_or_skip, upsert
from tuner.errors import InternalError
from tuner.records.candidate import Artifact
from tuner.records.outcome import Outcome
from tuner.records.trial import PendingTrial, Promotion, RemainingGain, Schedule, Trial


class Results(Part):
    """Where jobs put their results; objects go to ``artifacts``."""

    def __init__(self, database: Database, artifacts: Artifacts) -> None:
        super().__init__(database)
        self._artifacts = artifacts

    def commit(
        self,
        job_id: str,
        token: int,
        *,
        finished: Sequence[Trial] = (),
        started: Sequence[PendingTrial] = (),
        artifacts: Sequence[Artifact] = (),
        schedule: Schedule | None = None,
        promotions: Sequence[Promotion] = (),
        spent_s: float | None = None,
        remaining: RemainingGain | None = None,
    ) -> None:
        # In one order for all, or transactions with several in common could lock one another out.
        artifacts = sorted(artifacts, key=lambda artifact: artifact.digest)
        on_disk = self._artifacts.write_new(artifacts)
        # One transaction with the files, if they are rows.
        with self._database.transaction() as session:
            events = job_events.of_commit(finished, promotions, remaining)
            values = _progress_columns(spent_s, remaining)
            connection = session.connection()
            with hold(connection, job_id, token, events=len(events), **values):
                added = {
                    digest: add_artifact(connection, stored, job_id)
                    for digest, stored in on_disk.items()
                }
                ended = [finish_trial(connection, job_id, trial) for trial in finished]
                begun = start_trials(connection, job_id, started) if started else None
                job_events.add(connection, job_id, events)
            for artifact in artifacts:
                new = added.pop(artifact.digest, None)
                if new is None or changed(new) == 0:
                    complete_artifact(session, self._artifacts.files, artifact)
            for trial, result in zip(finished, ended, strict=True):
                if changed(result) == 0:
                    raise ended_before(job_id, trial.number)
            if begun is not None and changed(begun) < len(started):
                require_pending(session, job_id, started)
            for promotion in promotions:
                keep_promotion(session, job_id, promotion)
            if schedule is not None:
                offer_schedule(session, schedule)


def _progress_columns(spent_s: float | None, remaining: RemainingGain | None) -> dict[str, float]:
    columns = {} if spent_s is None else {"spent_s": spent_s}
    if remaining is not None:
        columns |= {"remaining_expected": remaining.expected, "remaining_bound": remaining.bound}
    return columns


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
