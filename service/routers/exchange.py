"""Stored schedules as one file, out and in."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse

from db import exchange
from service.app_state import Admin, Reader, Store
from service.exporting import DESCRIBED, exported
from service.importing import take_over
from service.openapi import problems
from service.schemas.schedules import ExportQuery, ImportedForm, ImportQuery
from tuner.paths import writable

router = APIRouter(prefix="/v1", tags=["schedules"])

_BODY = {
    "required": True,
    "description": "A file from `GET /v1/export` or `hvxtune db export`.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@router.get(
    "/export",
    summary="Stored schedules as one file",
    response_class=FileResponse,
    responses=DESCRIBED,
)
def export_schedules(
    query: Annotated[ExportQuery, Query()], caller: Reader, store: Store
) -> FileResponse:
    """All that are not quarantined, or those of a kernel or target, with provenance and objects:
    the shared ones and the caller's own."""
    write = partial(
        exchange.export_schedules,
        store,
        kernel=query.kernel,
        target=query.target,
        owner=caller.owner,
    )
    return exported(write, "hvxtune-schedules.zip")


@router.post(
    "/import",
    summary="Take over schedules from another service",
    response_model=ImportedForm,
    responses=problems(413),
    openapi_extra={"requestBody": _BODY},
)
async def import_schedules(
    request: Request, query: Annotated[ImportQuery, Query()], caller: Admin, store: Store
) -> dict[str, Any]:
    """Checks the whole file, then stores each schedule that is faster than the stored one.
    Importing the same file again changes nothing."""
    with tempfile.TemporaryFile(dir=writable("transfers")) as file:
        async for chunk in request.stream():  # BodyLimit bounds it
            await run_in_threadpool(file.write, chunk)
        done = await run_in_threadpool(
            take_over,
            store,
            file,
            any_toolchain=query.any_toolchain,
            caller=caller,
            request=request,
        )
        return asdict(done)
