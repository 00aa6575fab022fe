"""Uploaded pipelines: a row for each, its bytes on disk, both named by the digest of the bytes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select, tuple_

from db import durable_files
from db.failure import file_error
from db.service_models import PipelineRow
from db.sql_store import SqlStore
from tuner.identity import digest_of_bytes
from tuner.kernels import PIPELINE_PREFIX
from tuner.uploaded import files, kernel_name


@dataclass(frozen=True)
class StoredPipeline:
    """An upload. ``description`` is what the contained process found in its bytes."""

    digest: str
    name: str
    user: str
    upload_bytes: int
    description: Mapping[str, Any] = field(hash=False)
    created_at: float


def keep(
    store: SqlStore, data: bytes, name: str, user: str, description: Mapping[str, Any]
) -> tuple[StoredPipeline, bool]:
    """Stores an upload, its bytes before its row; the same bytes again stay what they were.

    Returns what is stored, and whether it is new.
    """
    digest = digest_of_bytes(data)
    files.require_name(digest)
    path = files.path_of(digest)
    try:
        if not path.exists() or digest_of_bytes(path.read_bytes()) != digest:
            durable_files.replace(path.parent.parent, path, data)
    except OSError as error:
        raise file_error(error, path) from error
    with store.writing() as session:
        row = session.get(PipelineRow, digest)
        if row is not None:
            return _record(row), False
        row = PipelineRow(
            digest=digest,
            name=name,
            submitted_by=user,
            upload_bytes=len(data),
            description=dict(description),
            created_at=time.time(),
        )
        session.add(row)
        return _record(row), True


def find(store: SqlStore, digest: str) -> StoredPipeline | None:
    """The upload with this digest."""
    with store.reading() as session:
        row = session.get(PipelineRow, digest)
        return None if row is None else _record(row)


def newest(
    store: SqlStore, limit: int, before: tuple[float, str] | None = None
) -> list[StoredPipeline]:
    """At most ``limit`` uploads, newest first; those after the one with the ``created_at`` and
    digest ``before``."""
    place = tuple_(PipelineRow.created_at, PipelineRow.digest)
    wanted = select(PipelineRow).order_by(PipelineRow.created_at.desc(), PipelineRow.digest.desc())
    if before is not None:
        wanted = wanted.where(place < before)
    with store.reading() as session:
        return [_record(row) for row in session.scalars(wanted.limit(limit))]


def kernel_of(store: SqlStore, name: str) -> str:
    """What a kernel that is asked for as ``name`` is called: ``pipeline:NAME`` means the newest
    upload of that name, everything else itself."""
    asked = name.removeprefix(PIPELINE_PREFIX)
    if asked == name or files.find(asked) is not None:
        return name if asked == name else kernel_name(str(files.find(asked)))
    newest_first = select(PipelineRow.digest).order_by(PipelineRow.created_at.desc())
    with store.reading() as session:
        digest = session.scalars(newest_first.where(PipelineRow.name == asked).limit(1)).first()
    return name if digest is None else kernel_name(digest)


def _record(row: PipelineRow) -> StoredPipeline:
    return StoredPipeline(
        digest=row.digest,
        name=row.name,
        user=row.submitted_by,
        upload_bytes=row.upload_bytes,
        description=row.description,
        created_at=row.created_at,
    )
