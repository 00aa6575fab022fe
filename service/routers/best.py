"""The best schedule for a workload, and for a whole model at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from db.pipelines import kernel_of
from db.sql_store import SqlStore
from service.app import answers_of, neighbours_of, settings_of, store_of
from service.auth import Caller, Scope, require
from service.openapi import problems
from service.problem_details import HttpError, body_of, not_found
from service.schedules import on_miss
from service.schedules.answers import Answers, answer_of
from service.schedules.asked import Asked, ask
from service.schedules.fast_route import is_known
from service.schedules.neighbours import Neighbours
from service.schemas.common import NO_QUERY
from service.schemas.params import read_params
from service.schemas.schedules import (
    BatchBody,
    BatchForm,
    BestForm,
    BestOptions,
    BestQuery,
    EnqueuedForm,
    MissForm,
    WorkloadAsked,
)
from service.settings import Settings
from tuner.errors import UserError

router = APIRouter(prefix="/v1", tags=["schedules"])


@dataclass(frozen=True)
class Desk:
    """Who asks, and all that answering takes."""

    request: Request
    caller: Caller
    store: SqlStore
    answers: Answers
    neighbours: Neighbours
    settings: Settings


def desk(
    request: Request,
    caller: Annotated[Caller, Depends(require(Scope.READ))],
    store: Annotated[SqlStore, Depends(store_of)],
    answers: Annotated[Answers, Depends(answers_of)],
    neighbours: Annotated[Neighbours, Depends(neighbours_of)],
    settings: Annotated[Settings, Depends(settings_of)],
) -> Desk:
    """A dependency: it lets only those pass who may read."""
    return Desk(request, caller, store, answers, neighbours, settings)


AtDesk = Annotated[Desk, Depends(desk)]


@router.get(
    "/schedules/best",
    summary="The best schedule for a workload",
    response_model=BestForm,
    responses={
        202: {"model": EnqueuedForm, "description": "Nothing is stored; a job was submitted."},
        304: {"description": "The answer is the one with the `ETag` in `If-None-Match`."},
        **problems(404),
        404: {"model": MissForm},
    },
)
def best(query: Annotated[BestQuery, Query()], desk: AtDesk) -> Response:
    """The best valid schedule whose contract the caller's promises imply: of the highest
    fidelity, of the toolchain used last, with the fewest cycles. Ask again with `If-None-Match`
    to learn whether there is a better one.

    A miss is a 404 that names the nearest workloads and the body that submits a job;
    `on_miss=enqueue` submits it.
    """
    owner = desk.caller.owner
    named = query.model_copy(update={"kernel": kernel_of(desk.store, query.kernel, owner)})
    status, text = _found(replace(asked_by(named), owner=owner), desk)
    answer = answer_of(text)
    if status == 200 and is_known(answer.etag, desk.request.scope):
        return Response(status_code=304, headers=_headers(answer.headers(unchanged=True)))
    return Response(answer.body, status, headers=_headers(answer.headers()))


def asked_by(query: BestQuery) -> Asked:
    """What a query asks for; ``UserError`` names what is wrong with it."""
    return ask(
        query.kernel,
        read_params(query.params),
        target=query.target,
        contract=query.contract,
        cache=query.cache,
        min_fidelity=query.min_fidelity,
        allow_nearest=query.allow_nearest,
        enqueue=query.on_miss is not None,
    )


def _headers(pairs: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in pairs}


@router.post(
    "/schedules/best:batch",
    summary="The best schedules for a whole model",
    response_model=BatchForm,
    dependencies=[NO_QUERY],
)
def best_batch(body: BatchBody, desk: AtDesk) -> Response:
    """One item for each workload, in order: what the single query would answer, with its
    `status`. One wrong workload does not fail the others."""
    items = []
    for workload in body.workloads:
        try:
            asked = _asked_of(workload, body, desk)
            status, text = _found(asked, desk)
            items.append(f'{{"status":{status},{text[1:]}')
        except (HttpError, UserError) as error:
            items.append(_text(body_of(error, "/v1/schedules/best:batch")))
    return Response(f'{{"items":[{",".join(items)}]}}', media_type="application/json")


def _text(form: dict[str, Any]) -> str:
    return json.dumps(form, separators=(",", ":"))


def _asked_of(workload: WorkloadAsked, body: BatchBody, desk: Desk) -> Asked:
    options: BestOptions = body
    owner = desk.caller.owner
    asked = ask(
        kernel_of(desk.store, workload.kernel, owner),
        workload.params,
        target=workload.target or body.target,
        contract=workload.contract or body.contract,
        cache=options.cache,
        min_fidelity=options.min_fidelity,
        allow_nearest=options.allow_nearest,
        enqueue=options.on_miss is not None,
    )
    return replace(asked, owner=owner)


def _found(asked: Asked, desk: Desk) -> tuple[int, str]:
    """The status and the body of the answer, a JSON object; ``HttpError`` 404 for a miss."""
    text = desk.answers.exact(asked)
    if text is not None:
        return 200, text
    near = desk.neighbours.nearest(asked) if asked.allow_nearest else None
    if near is not None:
        return 200, _text(near)
    if asked.enqueue:
        return 202, _text(_enqueued(asked, desk))
    workload = asked.problem.workload
    raise not_found(
        f"no schedule is stored for {workload.label}, contract {asked.problem.contract} or one it "
        f"implies, {asked.problem.target.name}, caches {asked.cache}, "
        f"fidelity {asked.min_fidelity} or higher",
        accepted="a workload that was tuned; `nearest` names some",
        next_step="POST /v1/jobs with the body in `submit`, or ask with on_miss=enqueue",
        nearest=desk.neighbours.names(asked),
        quarantined=[
            {"id": name, "reason": reason}
            for name, reason in desk.answers.reads.set_aside(asked.lookup)
        ],
        submit=on_miss.body_for(asked).model_dump(mode="json", exclude_unset=True),
    )


def _enqueued(asked: Asked, desk: Desk) -> dict[str, Any]:
    caller = desk.caller
    if not caller.may(Scope.SUBMIT):
        raise HttpError(
            403,
            f"on_miss=enqueue submits a job, and the token '{caller.name}' has not the scope "
            f"'{Scope.SUBMIT}'",
            accepted=f"a token with {Scope.SUBMIT} or {Scope.ADMIN}",
            next_step="leave on_miss out, or use such a token",
        )
    workers = desk.settings.workers
    job, reused = on_miss.job_for(asked, desk.store, caller, desk.request, default_workers=workers)
    return {"job": job, "reused": reused}
