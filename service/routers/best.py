"""The best schedule for a workload, and for a whole model at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from db.pipelines import KernelName, named
from db.sql_store import SqlStore
from service.admission.looker import Answered, Question
from service.admission.lookups import NEAREST_COSTS, Lookups
from service.app_state import Reader, ServiceSettings, Store, lookups_of
from service.auth import Caller, Scope
from service.auth.gate import Gate
from service.http_errors import HttpError, body_of
from service.openapi import problems
from service.schedules import on_miss
from service.schedules.answers import answer_of, is_known
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

T = TypeVar("T")


@dataclass(frozen=True)
class Desk:
    """The caller, and everything needed to answer them."""

    request: Request
    caller: Caller
    store: SqlStore
    lookups: Lookups
    settings: Settings

    async def answers(
        self, asked: BestQuery | BatchBody, workloads: Sequence[WorkloadAsked]
    ) -> list[Answered | HttpError | UserError]:
        """The answers, in order, after they were counted in the caller's rate."""
        cost = len(workloads) * (NEAREST_COSTS if asked.allow_nearest else 1)
        gate: Gate = self.request.app.state.gate
        gate.charge(self.caller, cost - 1)  # the request itself counted as one
        names = {workload.kernel for workload in workloads}
        # Of uploads and packages alone the names are looked up, which blocks.
        resolve = run_in_threadpool if any(":" in name for name in names) else _at_once
        found = await resolve(self._resolved, names)
        questions = [
            kernel
            if isinstance(kernel, UserError)
            else question_of(asked, one, kernel, self.caller.owner)
            for one in workloads
            for kernel in (found[one.kernel],)
        ]
        known = [question for question in questions if isinstance(question, Question)]
        enqueue = partial(_enqueued, self)
        answers = iter(await self.lookups.answer(self.caller.name, known, self.request, enqueue))
        return [one if isinstance(one, UserError) else next(answers) for one in questions]

    def _resolved(self, names: set[str]) -> dict[str, KernelName | UserError]:
        """The kernels that the caller means, or why there is none."""
        found: dict[str, KernelName | UserError] = {}
        for name in names:
            try:
                found[name] = named(self.store, name, self.caller.viewer).kernel
            except UserError as error:
                found[name] = error
        return found


async def _at_once(resolve: Callable[[set[str]], T], names: set[str]) -> T:
    return resolve(names)


def desk(
    request: Request,
    caller: Reader,
    store: Store,
    lookups: Annotated[Lookups, Depends(lookups_of)],
    settings: ServiceSettings,
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
async def best_schedule(query: Annotated[BestQuery, Query()], desk: AtDesk) -> Response:
    """The best valid schedule whose contract the caller's promises imply: of the highest
    fidelity, of the toolchains used last, with the fewest cycles. Ask again with `If-None-Match`
    to learn whether there is a better one.

    A miss is a 404 that names the nearest workloads and the body that submits a job;
    `on_miss=enqueue` submits it.
    """
    [found] = await desk.answers(query, [workload_of(query)])
    if isinstance(found, HvxtuneError):
        raise found
    answer = answer_of(found.text)
    if found.status == 200 and is_known(answer.etag, desk.request.scope):
        return Response(status_code=304, headers=_headers(answer.headers(unchanged=True)))
    return Response(answer.body, found.status, headers=_headers(answer.headers()))


def workload_of(query: BestQuery) -> WorkloadAsked:
    """The workload in a query; ``UserError`` names what is wrong with its parameters."""
    return WorkloadAsked.model_construct(
        kernel=query.kernel, params=read_params(query.param), target=None, contract=None
    )


def question_of(
    asked: BestQuery | BatchBody, workload: WorkloadAsked, kernel: KernelName, owner: str
) -> Question:
    """The question of ``owner`` for a workload whose ``kernel`` was found for them."""
    return Question(
        kernel,
        workload.params,
        target=workload.target or asked.target,
        contract=workload.contract or asked.contract,
        cache=asked.cache,
        min_fidelity=asked.min_fidelity,
        prefer=asked.prefer,
        allow_nearest=asked.allow_nearest,
        enqueue=asked.on_miss is not None,
        owner=owner,
    )


def _headers(pairs: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in pairs}


@router.post(
    "/schedules/best:batch",
    summary="The best schedules for a whole model",
    response_model=BatchForm,
)
async def best_schedules(body: BatchBody, desk: AtDesk) -> Response:
    """One item for each workload, in order: what the single query would answer, with its
    `status`. One wrong workload does not fail the others."""
    found = await desk.answers(body, body.workloads)
    items = [
        _text(body_of(one, "/v1/schedules/best:batch"))
        if isinstance(one, HvxtuneError)
        else f'{{"status":{one.status},{one.text[1:]}'
        for one in found
    ]
    return Response(f'{{"items":[{",".join(items)}]}}', media_type="application/json")


def _text(form: dict[str, Any]) -> str:
    return json.dumps(form, separators=(",", ":"))


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
