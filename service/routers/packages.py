"""Packages: kernels that admins register."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from db.jobs.queries import open_jobs_on
from service import reads, uploads
from service.app_state import READS, Admin, Store
from service.auth.audit import record
from service.http_errors import HttpError, not_found
from service.json_forms import package_json
from service.openapi import problems
from service.schemas.common import PageQuery
from service.schemas.packages import PackageBody, PackageForm, PackageList
from service.sub_path import published

router = APIRouter(prefix="/v1", tags=["packages"])

_BODY = {
    "required": True,
    "content": {"application/json": {"schema": PackageBody.model_json_schema()}},
}


@router.post(
    "/packages",
    summary="Register a package",
    status_code=201,
    response_model=PackageForm,
    responses=problems(413),
    openapi_extra={"requestBody": _BODY},
)
async def register_package(
    request: Request, response: Response, caller: Admin, store: Store
) -> dict[str, Any]:
    """Checks a package as far as that goes without building it, and keeps it.

    Everybody who may submit jobs may tune it then. Its code is built and run in contained processes
    only; a build of kind `command` runs the program that it names, which is why this takes `admin`.
    """
    data = await request.body()  # as large as the settings allow: service.admission.bodies
    package = await uploads.register_package(request, store, caller, data)
    response.headers["Location"] = published(request, f"/v1/kernels/{package.kernel}")
    return package_json(package)


@router.get(
    "/packages", summary="The registered packages", response_model=PackageList, dependencies=READS
)
def list_packages(query: Annotated[PageQuery, Query()], store: Store) -> dict[str, Any]:
    """A page of them, the one registered last first."""
    return reads.packages_page(store, **query.model_dump())


@router.delete(
    "/packages/{digest}",
    summary="Remove a package",
    response_model=PackageForm,
    responses=problems(404, 409),
)
def remove_package(digest: str, request: Request, caller: Admin, store: Store) -> dict[str, Any]:
    """By its digest or the first 12 digits of it. Jobs that wait or run on it are to end before;
    what they found stays, and is served no more until it is registered again."""
    from tuner.packages import files

    found = files.find(digest) if files.is_digest(digest) else None
    if found is None:
        raise not_found(
            f"no package '{digest[:80]}'",
            accepted="the digest of a package",
            next_step="GET /v1/packages lists them",
        )
    package = files.read(found)
    with store.transaction():
        if jobs := open_jobs_on(store, package.kernel):
            raise HttpError(
                409,
                f"{len(jobs)} jobs on {package.kernel} have not ended: {', '.join(jobs[:5])}",
                next_step="wait for them, or cancel them",
            )
        files.remove(found)
        detail = {"name": package.manifest.name, "kernel": package.kernel}
        record(store, caller, "package.remove", found, detail, request)
    return package_json(package)
