"""Networks and sets: the jobs of one as a whole, and what is asked of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from db.jobs.batches import batch_progress, batch_table, id_of_batch
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth import Caller, Scope, require
from service.job_requests import request_of_all
from service.json_forms import batch_json, batch_table_json
from service.openapi import problems
from service.problem_details import HttpError, not_found
from service.schemas.common import NO_QUERY
from service.schemas.networks import NetworkDetail, NetworkForm
from tuner.errors import UserError
from tuner.records.batch import Batch
from tuner.records.trial import JobRequest

router = APIRouter(prefix="/v1/networks", tags=["jobs"])


@router.get(
    "/{network}",
    summary="A network or set",
    response_model=NetworkDetail,
    responses=problems(404),
    dependencies=[Depends(require(Scope.READ)), NO_QUERY],
)
def one(network: str, store: Annotated[SqlStore, Depends(store_of)]) -> dict[str, Any]:
    """Its jobs as one: state and totals, the table by layer, and what to do next. By its id, the
    start of one, or the name of a network or set, which means its newest."""
    try:
        found = id_of_batch(store, network if network.isprintable() else "")
    except UserError as error:
        raise _missing(network, error) from None
    return batch_table_json(batch_table(store, found))


def find_batch(store: SqlStore, given: str) -> Batch:
    """The batch that a path names by its id or the start of it; 404 without one."""
    try:
        return store.batch(given if given.isascii() and given.isalnum() else "")
    except UserError as error:
        raise _missing(given, error) from None


def _missing(given: str, error: UserError) -> HttpError:
    return not_found(
        error.message if given.isprintable() else f"no batch '{given[:40]}'",
        accepted=error.accepted,
        next_step="`GET /v1/jobs?grouped=true` lists them",
    )


def _steer(request: JobRequest) -> Callable[..., dict[str, Any]]:
    def route(
        network: str,
        http_request: Request,
        caller: Annotated[Caller, Depends(require(Scope.SUBMIT, Scope.OPERATE))],
        store: Annotated[SqlStore, Depends(store_of)],
    ) -> dict[str, Any]:
        found = find_batch(store, network)
        request_of_all(store, caller, found, request, http_request)
        return batch_json(batch_progress(store, found.id))

    return route


for _request, _summary, _text in (
    (JobRequest.CANCEL, "Cancel all jobs of a network", "Ends them; what they found stays."),
    (JobRequest.PAUSE, "Pause all jobs of a network", "They wait until they are resumed."),
    (JobRequest.RESUME, "Resume all jobs of a network", "Its paused jobs are in the queue again."),
):
    router.post(
        f"/{{network}}/{_request}",
        name=f"{_request.value}_network",
        summary=_summary,
        description=f"{_text} All of its jobs that have not ended, or none. Others' need the scope "
        "`operate`. Asking twice changes nothing; 409 if all have ended.",
        response_model=NetworkForm,
        responses=problems(404, 409),
        dependencies=[NO_QUERY],
    )(_steer(_request))
