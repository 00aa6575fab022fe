"""Rows of artifacts, whose bytes are in a storage, and of what was measured of them."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, CursorResult, bindparam, insert, select, update
from sqlalchemy.orm import Session

from db.files.artifacts import ArtifactFiles, StoredArtifact
from db.models import ArtifactRow, JobRow, MeasurementRow
from db.statements import Upsert, insert_or_skip, table_of
from tuner.errors import StoreError
from tuner.records.candidate import Artifact, Measurement


def add_artifact(connection: Connection, stored: StoredArtifact, job_id: str) -> CursorResult[Any]:
    """The row of an artifact that a job found and whose file is kept, unless there is one."""
    values = {"digest": stored.digest, "of_job": job_id, "created_at": time.time()}
    return connection.execute(_add(connection.dialect.name), values | columns_of(stored))


@lru_cache(maxsize=2)
def _add(dialect: str) -> Upsert:
    toolchain = select(JobRow.toolchain_id).where(JobRow.id == bindparam("of_job"))
    statement = insert_or_skip(dialect, ArtifactRow, ("digest",))
    return statement.values(toolchain_id=toolchain.scalar_subquery())


def complete_artifact(session: Session, files: ArtifactFiles, artifact: Artifact) -> None:
    """Adds the kinds of files that a known artifact lacks, and writes a file that was lost or
    damaged again."""
    row = _locked(session, artifact.digest)
    try:
        first = files.read(row.digest, row.symbol, row.file_digest)
    except StoreError:
        first = artifact
    whole = files.write(replace(first, files={**artifact.files, **first.files}))
    if whole.file_digest != row.file_digest:
        session.execute(
            update(ArtifactRow).where(ArtifactRow.digest == row.digest).values(**columns_of(whole))
        )


def replace_if_lost(session: Session, files: ArtifactFiles, stored: StoredArtifact) -> None:
    row = _locked(session, stored.digest)
    try:
        files.read(row.digest, row.symbol, row.file_digest)
    except StoreError:
        session.execute(
            update(ArtifactRow).where(ArtifactRow.digest == row.digest).values(**columns_of(stored))
        )


def _locked(session: Session, digest: str) -> ArtifactRow:
    """The row as it is now, which only this transaction changes until it ends. Others may go on to
    refer to it (PostgreSQL's ``FOR NO KEY UPDATE``): two jobs that found the same object have both
    done so when each comes here, and would otherwise deadlock."""
    return session.get_one(
        ArtifactRow, digest, populate_existing=True, with_for_update={"key_share": True}
    )


def columns_of(stored: StoredArtifact) -> dict[str, Any]:
    return {
        "symbol": stored.symbol,
        "files": dict(stored.files),
        "file_digest": stored.file_digest,
        "object_bytes": stored.object_bytes,
        "stored_bytes": stored.stored_bytes,
    }


def add_measurement(session: Session, measurement: Measurement, artifact_digest: str) -> int:
    """The row of a new measurement of a stored artifact."""
    values = _measured(measurement, artifact_digest)
    return session.connection().execute(_MEASURED.returning(MeasurementRow.id), values).scalar_one()


def insert_measurement(
    connection: Connection, measurement: Measurement, artifact_digest: str
) -> None:
    """The same without the row's id, for the next statement to take
    (:class:`db.statements.LastId`)."""
    connection.execute(_MEASURED, _measured(measurement, artifact_digest))


def _measured(measurement: Measurement, artifact_digest: str) -> dict[str, object]:
    values = measurement.as_dict() | {"artifact_digest": artifact_digest}
    if measurement.event_counts is not None:  # else the column would hold JSON's null
        values["event_counts"] = measurement.event_counts
    return values


_MEASURED = insert(table_of(MeasurementRow)).inline()
