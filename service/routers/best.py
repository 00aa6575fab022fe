"""The best schedule for a workload, and for a whole model at once."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from db.sql_store import SqlStore
from service.app import answers_of, neighbours_of, store_of
from service.auth import Caller, Scope, require
from service.json_forms import job_json
from service.openapi import problems
from service.problem_details import HttpError, body_of, not_found
from service.schedules.answers import Answers, answer_of
from service.schedules.asked import Asked, ask
from service.schedules.fast_route import FastRoute, is_known
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
from service.submission import DEFAULT_TRIALS, job_for_problem
from tuner.errors import UserError

router = APIRouter(prefix="/v1", tags=["schedules"], route_class=FastRoute)

Reader = Annotated[Caller, Depends(require(Scope.READ))]
Store = Annotated[SqlStore, Depends(store_of)]
Kept = Annotated[Answers, Depends(answers_of)]
Near = Annotated[Neighbours, Depends(neighbours_of)]


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
def best(
    request: Request,
    query: Annotated[BestQuery, Query()],
    caller: Reader,
    store: Store,
    answers: Kept,
    neighbours: Near,
) -> Response:
    """The best valid schedule whose contract the caller's promises imply: of the highest
    fidelity, of the toolchain used last, with the fewest cycles. Ask again with `If-None-Match`
    to learn whether there is a better one.

    A miss is a 404 that names the nearest workloads and the body that submits a job;
    `on_miss=enqueue` submits it.
    """
    status, form = _found(asked_by(query), caller, store, answers, neighbours)
    answer = answer_of(form)
    if status == 200 and is_known(answer.etag, request.scope):
        return Response(status_code=304, headers=_headers(answer.headers[2:]))
    return Response(answer.body, status, headers=_headers(answer.headers))


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


def _headers(pairs: tuple[tuple[bytes, bytes], ...]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in pairs}


@router.post(
    "/schedules/best:batch",
    summary="The best schedules for a whole model",
    response_model=BatchForm,
    dependencies=[NO_QUERY],
)
def best_batch(
    body: BatchBody, caller: Reader, store: Store, answers: Kept, neighbours: Near
) -> Response:
    """One item for each workload, in order: what the single query would answer, with its
    `status`. One wrong workload does not fail the others."""
    items = []
    for workload in body.workloads:
        try:
            asked = _asked_of(workload, body)
            status, form = _found(asked, caller, store, answers, neighbours)
            items.append({"status": status, **form})
        except (HttpError, UserError) as error:
            items.append(body_of(error, "/v1/schedules/best:batch"))
    return Response(answer_of({"items": items}).body, media_type="application/json")


def _asked_of(workload: WorkloadAsked, body: BatchBody) -> Asked:
    options: BestOptions = body
    return ask(
        workload.kernel,
        workload.params,
        target=workload.target or body.target,
        contract=workload.contract or body.contract,
        cache=options.cache,
        min_fidelity=options.min_fidelity,
        allow_nearest=options.allow_nearest,
        enqueue=options.on_miss is not None,
    )


def _found(
    asked: Asked, caller: Caller, store: SqlStore, answers: Answers, neighbours: Neighbours
) -> tuple[int, dict[str, Any]]:
    """The status and the body of the answer; ``HttpError`` 404 for a miss."""
    form = answers.exact(asked)
    if form is None and asked.allow_nearest:
        form = neighbours.nearest(asked)
    if form is not None:
        return 200, form
    if asked.enqueue:
        return 202, _enqueued(asked, caller, store)
    workload = asked.problem.workload
    raise not_found(
        f"no schedule is stored for {workload.label}, contract {asked.problem.contract} or one it "
        f"implies, {asked.problem.target.name}, caches {asked.cache}, "
        f"fidelity {asked.min_fidelity} or higher",
        accepted="a workload that was tuned; `nearest` names some",
        next_step="POST /v1/jobs with the body in `submit`, or ask with on_miss=enqueue",
        nearest=neighbours.names(asked),
        submit={
            "kernel": workload.kernel,
            "params": dict(workload.params),
            "target": asked.problem.target.name,
            "contract": asked.problem.contract.value,
            "cache": asked.cache,
            "budget": {"trials": DEFAULT_TRIALS},
        },
    )


def _enqueued(asked: Asked, caller: Caller, store: SqlStore) -> dict[str, Any]:
    if not caller.may(Scope.SUBMIT):
        raise HttpError(
            403,
            f"on_miss=enqueue submits a job, and the token '{caller.name}' has not the scope "
            f"'{Scope.SUBMIT}'",
            accepted=f"a token with {Scope.SUBMIT} or {Scope.ADMIN}",
            next_step="leave on_miss out, or use such a token",
        )
    job, reused = job_for_problem(store, caller, asked.problem, asked.cache)
    return {"job": job_json(job), "reused": reused}
