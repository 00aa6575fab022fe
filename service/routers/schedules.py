"""Stored schedules: in pages, one by its id, its files; quarantine and release."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from db.schedules import quarantine
from db.schedules import queries as schedule_queries
from service.app_state import READS, Operator, Store
from service.auth.audit import record
from service.http_errors import HttpError
from service.json_forms import doubt_json
from service.openapi import problems
from service.schedules.files import (
    FileKind,
    file_response,
    named,
    provenance_json,
    stored_json,
    valid,
)
from service.schemas import paging
from service.schemas.doubts import DoubtAnswer
from service.schemas.schedules import QuarantineBody, SchedulePage, SchedulesQuery, StoredForm
from tuner.jobs.job_result import doubt_of_schedule
from tuner.problem.contract import Contract

router = APIRouter(prefix="/v1", tags=["schedules"])


@router.get(
    "/schedules",
    summary="Stored schedules, newest first",
    response_model=SchedulePage,
    dependencies=READS,
)
def list_schedules(query: Annotated[SchedulesQuery, Query()], store: Store) -> dict[str, Any]:
    """Every problem's best for each fidelity and toolchain, quarantined ones included."""
    found = schedule_queries.page(
        store,
        kernel=query.kernel,
        target=query.target,
        contract=None if query.contract is None else Contract(query.contract),
        fidelity=query.fidelity,
        quarantined=query.quarantined,
        below=paging.number_before(query.cursor),
        limit=query.limit + 1,
    )
    return paging.page(found, query.limit, stored_json, lambda one: [one.row.id])


@router.get(
    "/schedules/{id}",
    summary="One schedule",
    response_model=StoredForm,
    responses=problems(404, 409),
    dependencies=READS,
)
def get_schedule(id: str, store: Store) -> dict[str, Any]:  # noqa: A002 - the path's
    """A schedule by its id, `JOB-TRIAL`: any trial that ended `ok` has one, also one that a
    faster one has superseded."""
    return stored_json(valid(store, id))


@router.get(
    "/schedules/{id}/provenance",
    summary="Where a schedule came from",
    responses={
        200: {
            "description": "Its provenance.",
            "content": {
                "application/json": {
                    "example": {"job": "1rt0taze20", "trial": 7, "sampler": "surrogate", "seed": 0}
                }
            },
        },
        **problems(404),
    },
    dependencies=READS,
)
def schedule_provenance(id: str, store: Store) -> dict[str, Any]:  # noqa: A002
    """Job, trial, space, sampler, seed, toolchain, and the digests that pin it."""
    return provenance_json(named(store, id))


@router.get(
    "/schedules/{id}/doubt",
    summary="How far a schedule rests on assumed costs",
    response_model=DoubtAnswer,
    responses=problems(404),
    dependencies=READS,
)
def schedule_doubt(id: str, store: Store) -> dict[str, Any]:  # noqa: A002
    """How often it would still be the best of its job, if the costs that the timing model assumes
    were others; null where nothing is assumed, as on hardware."""
    found = named(store, id)
    provenance = json.loads(found.row.provenance)
    target = found.problem.target
    return {"doubt": doubt_json(doubt_of_schedule(store, target, found.row.fidelity, provenance))}


_FILE_HEADERS = {
    "ETag": {"schema": {"type": "string"}, "description": "The SHA-256 of the file."},
    "Repr-Digest": {"schema": {"type": "string"}, "description": "The same, as of RFC 9530."},
    "X-Hvxtune-Contract": {"schema": {"type": "string"}, "description": "Guarantees callers give."},
    "X-Hvxtune-Symbol": {"schema": {"type": "string"}, "description": "The C function."},
}


def _add_file_route(path: str, kind: FileKind, summary: str, media_type: str) -> None:
    def get_file(id: str, store: Store) -> Response:  # noqa: A002
        return file_response(store, id, kind)

    get_file.__doc__ = (
        f"{summary}. Never changes: keep it as long as you like. 409 if the schedule is "
        "quarantined, or is found to be damaged now."
    )
    binary = {"format": "binary"} if media_type == "application/octet-stream" else {}
    content = {media_type: {"schema": {"type": "string", **binary}}}
    router.add_api_route(
        f"/schedules/{{id}}/{path}",
        get_file,
        methods=["GET"],
        name=f"schedule_{'cpp' if kind == 'schedule' else kind}",
        summary=summary,
        response_class=Response,
        responses={200: {"content": content, "headers": _FILE_HEADERS}, **problems(404, 409)},
        dependencies=READS,
    )


for _path, _kind, _summary, _type in (
    ("object", "object", "The relocatable Hexagon object", "application/octet-stream"),
    ("header", "header", "The C header of the object", "text/plain"),
    ("schedule.h", "schedule", "Halide's schedule as C++", "text/plain"),
    ("loopnest", "loopnest", "The loops, as Halide prints them", "text/plain"),
    ("assembly", "assembly", "The assembly of the object", "text/plain"),
):
    _add_file_route(_path, _kind, _summary, _type)  # type: ignore[arg-type]


@router.post(
    "/schedules/{id}/quarantine",
    summary="Never hand out a schedule",
    response_model=StoredForm,
    responses=problems(404, 409),
)
def quarantine_schedule(
    id: str,  # noqa: A002
    body: QuarantineBody,
    request: Request,
    caller: Operator,
    store: Store,
) -> dict[str, Any]:
    """Best-queries give the next best from now on. Only stored bests can be quarantined: what
    never was, or no longer is, a best is handed out by its id alone."""
    public_id = named(store, id).row.public_id
    with store.transaction():
        if not quarantine.quarantine(store, public_id, body.reason):
            raise _superseded(id)
        record(store, caller, "schedule.quarantine", id, {"reason": body.reason}, request)
    return stored_json(named(store, id))


@router.post(
    "/schedules/{id}/release",
    summary="Hand out a quarantined schedule again",
    response_model=StoredForm,
    responses=problems(404, 409),
)
def release_schedule(
    id: str,  # noqa: A002
    request: Request,
    caller: Operator,
    store: Store,
) -> dict[str, Any]:
    """For one whose fault was repaired. If it was not, the next query quarantines it again. What
    took its place is handed out on if it is faster."""
    before = named(store, id)
    with store.transaction():
        if not quarantine.release(store, before.row.public_id):
            raise _superseded(id)
        record(store, caller, "schedule.release", id, None, request)
    free = replace(before, quarantined_at=None, quarantine_reason="")
    return stored_json(schedule_queries.find(store, id) or free)


def _superseded(schedule_id: str) -> HttpError:
    return HttpError(
        409,
        f"{schedule_id} is a trial, not a stored best",
        accepted="an id that GET /v1/schedules lists",
    )
