"""Uploads of serialized Halide pipelines."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from db import pipelines
from service import reads
from service.app_state import READS, Reader, Store, Submitter
from service.auth.quotas import check_upload
from service.http_errors import not_found
from service.json_forms import pipeline_json
from service.openapi import problems
from service.schemas.common import PageQuery
from service.schemas.pipelines import PipelineForm, PipelineList, UploadQuery
from service.sub_path import published
from service.uploads import derived, keep_pipeline

router = APIRouter(prefix="/v1", tags=["pipelines"])

_BODY = {
    "required": True,
    "description": "The bytes from `halide.serialize_pipeline(pipeline)`.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@router.post(
    "/pipelines",
    summary="Upload a pipeline",
    status_code=201,
    response_model=PipelineForm,
    responses={
        200: {"model": PipelineForm, "description": "The owner uploaded these bytes before."},
        **problems(413),
    },
    openapi_extra={"requestBody": _BODY},
)
async def upload_pipeline(
    request: Request,
    response: Response,
    query: Annotated[UploadQuery, Query()],
    caller: Submitter,
    store: Store,
) -> dict[str, Any]:
    """Stores a serialized Halide pipeline and says what it consists of and how it can be tuned.

    The bytes are opened only in a process without network, files or other processes, with limits
    of memory and time. The name is the owner's: other bytes under it are a new version, and
    `pipeline:NAME` means what was uploaded last under it, by this owner and nobody else.
    """
    said = request.headers.get("content-length", "")
    if said.isdecimal():  # over a quota: refused before the bytes are sent
        await run_in_threadpool(check_upload, store, caller, int(said))
    data = await request.body()  # as large as the settings allow: service.admission.bodies
    private = query.visibility == "private"
    keep = partial(keep_pipeline, request, store, caller, data, query.name, private=private)
    stored, is_new = await run_in_threadpool(keep)
    found = await run_in_threadpool(derived, stored)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = published(request, f"/v1/pipelines/{stored.digest}")
    return {**pipeline_json(stored), **found}


@router.get(
    "/pipelines", summary="The uploaded pipelines", response_model=PipelineList, dependencies=READS
)
def list_pipelines(query: Annotated[PageQuery, Query()], store: Store) -> dict[str, Any]:
    """A page of them, newest first."""
    return reads.pipelines_page(store, **query.model_dump())


@router.get(
    "/pipelines/{digest}",
    summary="One uploaded pipeline",
    response_model=PipelineForm,
    responses=problems(404),
)
def get_pipeline(digest: str, caller: Reader, store: Store) -> dict[str, Any]:
    """Its stages, inputs and outputs, and where it came from."""
    found = pipelines.find(store, digest, caller.owner)
    if found is None:
        raise not_found(
            f"no pipeline '{digest[:80]}'",
            accepted="the digest of an uploaded pipeline",
            next_step="GET /v1/pipelines lists them",
        )
    return {**pipeline_json(found), **derived(found)}
