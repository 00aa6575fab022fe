"""The best schedule for a workload, and for a whole model at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from db.sql_store import SqlStore
from service.admission.looker import Answered, Question
from service.admission.lookups import NEAREST_COSTS, Lookups
from service.app_state import lookups_of, settings_of, store_of
from service.auth import Caller, Scope, require
from service.auth.gate import Gate
from service.openapi import problems
from service.problem_details import HttpError, body_of
from service.schedules import on_miss
from service.schedules.answers import answer_of, is_known
from service.schemas.common import NO_QUERY
from service.schemas.params import read_params
from service.schemas.schedules import (
    BatchBody,
    BatchForm,
    BestForm,
    BestQuery,
    EnqueuedForm,
    MissForm,
    WorkloadAsked,
)
from service.settings import Settings
from tuner.errors import HvxtuneError, UserError

router = APIRouter(prefix="/v1", tags=["schedules"])


@dataclass(frozen=True)
class Desk:
    """The caller, and everything needed to answer them."""

    request: Request
    caller: Caller
    store: SqlStore
    lookups: Lookups
    settings: Settings

    async def answers(self, questions: list[Question]) -> list[Answered | HttpError | UserError]:
        """The answers, in order, after they were counted in the caller's rate."""
        questions = [replace(question, owner=self.caller.owner) for question in questions]
        cost = sum(NEAREST_COSTS if q.allow_nearest else 1 for q in questions)
        gate: Gate = self.request.app.state.gate
        gate.charge(self.caller, cost - 1)  # the request itself counted as one
        enqueue = partial(_enqueued, self)
        return await self.lookups.answer(self.caller.name, questions, self.request, enqueue)


def desk(
    request: Request,
    caller: Annotated[Caller, Depends(require(Scope.READ))],
    store: Annotated[SqlStore, Depends(store_of)],
    lookups: Annotated[Lookups, Depends(lookups_of)],
    settings: Annotated[Settings, Depends(settings_of)],
) -> Desk:
    """A dependency: it lets only those pass who may read."""
    return Desk(request, caller, store, lookups, settings)


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
async def best(query: Annotated[BestQuery, Query()], desk: AtDesk) -> Response:
    """The best valid schedule whose contract the caller's promises imply: of the highest
    fidelity, of the toolchains used last, with the fewest cycles. Ask again with `If-None-Match`
    to learn whether there is a better one.

    A miss is a 404 that names the nearest workloads and the body that submits a job;
    `on_miss=enqueue` submits it.
    """
    [found] = await desk.answers([question_of(query)])
    if isinstance(found, HvxtuneError):
        raise found
    answer = answer_of(found.text)
    if found.status == 200 and is_known(answer.etag, desk.request.scope):
        return Response(status_code=304, headers=_headers(answer.headers(unchanged=True)))
    return Response(answer.body, found.status, headers=_headers(answer.headers()))


def question_of(query: BestQuery) -> Question:
    """The question in a query; ``UserError`` names what is wrong with its parameters."""
    workload = WorkloadAsked.model_construct(
        kernel=query.kernel, params=read_params(query.params), target=None, contract=None
    )
    return _question(query, workload)


def _headers(pairs: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in pairs}


@router.post(
    "/schedules/best:batch",
    summary="The best schedules for a whole model",
    response_model=BatchForm,
    dependencies=[NO_QUERY],
)
async def best_batch(body: BatchBody, desk: AtDesk) -> Response:
    """One item for each workload, in order: what the single query would answer, with its
    `status`. One wrong workload does not fail the others."""
    found = await desk.answers([_question(body, workload) for workload in body.workloads])
    items = [
        _text(body_of(one, "/v1/schedules/best:batch"))
        if isinstance(one, HvxtuneError)
        else f'{{"status":{one.status},{one.text[1:]}'
        for one in found
    ]
    return Response(f'{{"items":[{",".join(items)}]}}', media_type="application/json")


def _text(form: dict[str, Any]) -> str:
    return json.dumps(form, separators=(",", ":"))


def _question(asked: BestQuery | BatchBody, workload: WorkloadAsked) -> Question:
    return Question(
        workload.kernel,
        workload.params,
        target=workload.target or asked.target,
        contract=workload.contract or asked.contract,
        cache=asked.cache,
        min_fidelity=asked.min_fidelity,
        allow_nearest=asked.allow_nearest,
        enqueue=asked.on_miss is not None,
    )


def _enqueued(desk: Desk, question: Question) -> Answered:
    """The job that fills a miss. Blocks."""
    caller = desk.caller
    if not caller.may(Scope.SUBMIT):
        raise HttpError(
            403,
            f"on_miss=enqueue submits a job, and the token '{caller.name}' lacks the scope "
            f"'{Scope.SUBMIT}'",
            accepted=f"a token with {Scope.SUBMIT} or {Scope.ADMIN}",
            next_step="leave on_miss out, or use such a token",
        )
    workers = desk.settings.workers
    job, reused = on_miss.job_for(
        question.asked(), desk.store, caller, desk.request, default_workers=workers
    )
    return Answered(202, _text({"job": job, "reused": reused}))
