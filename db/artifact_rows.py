"""Rows of artifacts, whose bytes are in a storage, and of what was measured of them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from db import catalogue
from db.files.artifacts import ArtifactFiles, StoredArtifact
from db.models import ArtifactRow, JobRow, MeasurementRow
from tuner.errors import StoreError
from tuner.records.candidate import Artifact, Measurement


def add_artifact(
    session: Session,
    files: ArtifactFiles,
    job_id: str,
    artifact: Artifact,
    stored: StoredArtifact | None,
) -> None:
    """The row of an artifact whose file is kept (``stored``).

    If the artifact is known, the kinds of files it lacks are added, and a file that was lost or
    damaged is written again.
    """
    if stored is not None:
        toolchain = select(JobRow.toolchain_id).where(JobRow.id == job_id).scalar_subquery()
        values = {"digest": stored.digest, "toolchain_id": toolchain, "created_at": time.time()}
        if catalogue.insert_unless_there(session, ArtifactRow, values | columns_of(stored)):
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
            update(ArtifactRow).where(ArtifactRow.digest == row.digest).values(**columns_of(whole))
        )


def replace_if_lost(session: Session, files: ArtifactFiles, stored: StoredArtifact) -> None:
    row = session.get_one(ArtifactRow, stored.digest, populate_existing=True, with_for_update=True)
    try:
        files.read(row.digest, row.symbol, row.file_digest)
    except StoreError:
        session.execute(
            update(ArtifactRow).where(ArtifactRow.digest == row.digest).values(**columns_of(stored))
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
    values = measurement.as_dict() | {"artifact_digest": artifact_digest}
    if measurement.event_counts is not None:  # else the column would hold JSON's null
        values["event_counts"] = measurement.event_counts
    return session.execute(
        insert(MeasurementRow).values(**values).returning(MeasurementRow.id)
    ).scalar_one()
