"""One schedule by its id: its JSON, and the files of its object, which never change."""

from __future__ import annotations

import base64
import json
from typing import Any, Literal

from starlette.responses import Response

from db.files.artifacts import LOST_FILE
from db.schedules.queries import StoredSchedule, find
from db.sql_store import SqlStore
from service.http_errors import HttpError, not_found
from service.json_forms import visibility
from service.schedules.forms import label_of, schedule_json
from service.suggested_files import attachment, identifier, way_to
from tuner.errors import StoreError, UserError

FileKind = Literal["object", "header", "schedule", "loopnest", "assembly"]
IMMUTABLE = "private, max-age=31536000, immutable"
_TYPES = {"object": "application/octet-stream"}
_SUFFIXES = {
    "object": ".o",
    "header": ".h",
    "schedule": ".schedule.h",
    "loopnest": ".loopnest.txt",
    "assembly": ".s",
}


def named(store: SqlStore, schedule_id: str) -> StoredSchedule:
    """The schedule with an id; 404 if it is unknown."""
    found = find(store, schedule_id)
    if found is None:
        raise not_found(
            f"no schedule '{schedule_id[:80]}'",
            accepted="JOB-TRIAL of a trial that ended ok, or the id of an imported schedule",
            next_step="GET /v1/schedules lists them",
        )
    return found


def valid(store: SqlStore, schedule_id: str) -> StoredSchedule:
    """The schedule with an id, if it may be handed out: 409 if it is quarantined or, as turns out
    now, should be.

    Its config is checked against the space it was found in, where that is stored: a build that pins
    an id gets it permanently, whatever later versions of the kernel consider.
    """
    found = named(store, schedule_id)
    if found.quarantined_at is not None:
        raise refused(schedule_id, found.quarantine_reason)
    fault = store.validator.fault(found.row, found.problem, space=found.space)
    if fault:
        raise _set_aside(store, found, fault)
    return found


def refused(schedule_id: str, reason: str) -> HttpError:
    """409 for a schedule that is not handed out."""
    return HttpError(
        409,
        f"schedule {schedule_id} is quarantined: {reason}",
        accepted="a schedule that is not",
        next_step="ask GET /v1/schedules/best again: it gives the next best one",
    )


def _set_aside(store: SqlStore, found: StoredSchedule, reason: str) -> HttpError:
    store.set_aside(found.row, reason)
    return refused(found.row.public_id, reason)


def file_response(store: SqlStore, schedule_id: str, kind: FileKind) -> Response:
    """A file of a schedule, with its digest, contract and symbol in the headers."""
    found = valid(store, schedule_id)
    row = found.row
    if kind not in found.files:
        raise not_found(
            f"schedule {schedule_id} has no {kind}",
            accepted=", ".join(sorted(found.files)),
            next_step=way_to(kind),
        )
    try:
        artifact = store.artifact(row.artifact_digest)
    except StoreError as error:
        raise _set_aside(store, found, f"{LOST_FILE} cannot be used: {error.message}") from None
    content = artifact.files[kind]
    digest = found.files[kind]
    return Response(
        content,
        media_type=_TYPES.get(kind, "text/plain"),
        headers={
            "ETag": f'"{digest}"',
            "Repr-Digest": f"sha-256=:{base64.b64encode(bytes.fromhex(digest)).decode()}:",
            "Cache-Control": IMMUTABLE,
            **attachment(identifier(found.problem, label_of(row.provenance)) + _SUFFIXES[kind]),
            "X-Hvxtune-Contract": str(found.problem.contract),
            "X-Hvxtune-Symbol": row.symbol,
            "X-Hvxtune-Target": found.problem.target.name,
            "X-Content-Type-Options": "nosniff",
        },
    )


def stored_json(found: StoredSchedule) -> dict[str, Any]:
    """A schedule as listings give it."""
    try:
        form = schedule_json(found.row, found.problem, found.cache)
    except UserError as error:  # its kernel is not installed here
        raise HttpError(409, error.message, accepted=error.accepted) from None
    reason = found.quarantine_reason
    aside = None if found.quarantined_at is None else {"at": found.quarantined_at, "reason": reason}
    return {
        **form,
        "owner": found.tenant,
        "visibility": visibility(private=found.private),
        "quarantined": aside,
    }


def provenance_json(found: StoredSchedule) -> dict[str, Any]:
    """Where a schedule came from, with the digests that pin it."""
    row = found.row
    return {
        "id": row.public_id,
        **json.loads(row.provenance),
        "toolchain": json.loads(row.toolchain),
        "toolchain_digest": row.toolchain_digest,
        "problem_digest": found.problem.digest,
        "workload_digest": found.problem.workload.digest,
        "config_digest": row.config_digest,
        "object_digest": row.artifact_digest,
        "files": dict(found.files),
        "device": row.device,
        "fidelity": row.fidelity,
    }
