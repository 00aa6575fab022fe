"""Offers schedules for the store: the best of each rule, toolchain, fidelity and audience stays."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Insert, delete, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from db import catalogue
from db.artifact_rows import add_measurement, columns_of, replace_if_lost
from db.files.artifacts import LOST_FILE, ArtifactFiles, StoredArtifact
from db.models import ArtifactRow, JobRow, PromotionRow, ScheduleRow, TrialRow
from db.records import measurement_record
from db.schedules.validation import seal_of
from db.statements import inserting
from tuner.codegen.judged import judge
from tuner.keeping.store import toolchain_of
from tuner.records.trial import Schedule


def ranked(prefer: str) -> InstrumentedAttribute[int]:
    """The column by which schedules of one rule are compared."""
    return ScheduleRow.expected_cycles if prefer == "robust" else ScheduleRow.cycles


def offer_schedule(session: Session, schedule: Schedule) -> None:
    """Makes ``schedule`` the stored one unless the same toolchain already has one as good by its
    rule.

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
    if not catalogue.insert_unless_there(session, ArtifactRow, values | columns_of(stored)):
        replace_if_lost(session, files, stored)
    origin = {"job_id": None, "trial_number": None, "tenant": "", "audience": ""}
    return _offer(session, schedule, name, origin)


def _offer(session: Session, schedule: Schedule, name: str, origin: Mapping[str, Any]) -> bool:
    measurement = schedule.measurement
    key = {
        "problem_id": catalogue.problem_id(session, schedule.problem),
        "fidelity": measurement.fidelity,
        "toolchain_id": catalogue.toolchain_id(session, toolchain_of(schedule)),
        "audience": origin["audience"],
        "prefer": schedule.prefer,
    }
    if _is_quarantined(session, key, schedule):
        return False
    handed_out = select(ranked(schedule.prefer)).filter_by(**key, quarantined_at=None)
    least = session.scalar(handed_out)
    if least is not None and least <= schedule.ranked_cycles:
        return False
    provenance = dict(schedule.provenance)
    del provenance["toolchain"]  # it is a row, shared by many schedules
    values = {
        "cycles": measurement.cycles,
        "expected_cycles": measurement.ranked_cycles("robust"),
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
    of_anybody = {name: key[name] for name in ("problem_id", "fidelity", "toolchain_id")}
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
    """One statement, so that two jobs that offer at once cannot overwrite the better one."""
    figure = ranked(key["prefer"]).key
    offer = inserting(session.connection().dialect.name, ScheduleRow).values(**key, **values)
    return offer.on_conflict_do_update(
        index_elements=list(key),
        index_where=ScheduleRow.quarantined_at.is_(None),
        set_=values,
        where=offer.excluded[figure] < ranked(key["prefer"]),
    )
