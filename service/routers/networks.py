"""Networks and sets: the jobs of one as a whole, and what is asked of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import FileResponse

from db.exchange import write_schedules
from db.jobs.batches import (
    batch_problems,
    batch_progress,
    keep_plan,
    plan_of,
)
from db.sql_store import SqlStore
from service import reads
from service.app_state import READS, Reader, ServiceSettings, Steerer, Store, Submitter
from service.auth.audit import record
from service.auth.gate import Gate
from service.exporting import DESCRIBED, exported
from service.http_errors import HttpError, not_found
from service.job_requests import request_of_all, require_may_steer, submit
from service.json_forms import batch_json
from service.openapi import problems
from service.routers.jobs import IdempotencyKey, submitted
from service.schemas.jobs import Submitted
from service.schemas.networks import NetworkDetail, NetworkForm
from service.schemas.new_network import NewNetworkBody, PlanForm
from tuner.keeping.best import lookup_of
from tuner.problem.contract import Contract
from tuner.records.candidate import Problem
from tuner.records.network_plan import plan_from_document
from tuner.records.trial import JobRequest, Schedule

router = APIRouter(prefix="/v1/networks", tags=["jobs"])

_NAMED = 3
"""Workloads that an error names."""


@router.post(
    "", summary="Tune a network", status_code=201, response_model=Submitted, responses=problems(409)
)
def submit_network(
    body: NewNetworkBody,
    request: Request,
    caller: Submitter,
    store: Store,
    settings: ServiceSettings,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Queues a job for each different workload of `layers`, all or none; layers of one workload
    share its job. The network's weights, scales and zero points stay with its owner: a service
    needs shapes alone. Trials and seconds of `budget` are
    of the whole, and shared out evenly. An `Idempotency-Key` works as for
    `POST /v1/jobs`. In a token's rate the request counts as its number of jobs."""
    gate: Gate = request.app.state.gate
    gate.charge(caller, len(body.workloads) - 1)  # the request itself counted as one
    workers = settings.workers
    taken = submit(store, caller, body, request, key=idempotency_key, default_workers=workers)
    return submitted(taken, request)


@router.get(
    "/{network}",
    summary="A network or set",
    response_model=NetworkDetail,
    responses=problems(404),
    dependencies=READS,
)
def get_network(network: str, store: Store) -> dict[str, Any]:
    """Its jobs as one: state and totals, the table by layer, and what to do next. By its id, the
    start of one, or the name of a network or set, which means its newest."""
    return reads.network(store, network)


@router.get(
    "/{network}/plan",
    summary="The plan of a network",
    response_model=PlanForm,
    responses=problems(404),
    dependencies=READS,
)
def network_plan(network: str, store: Store) -> dict[str, Any]:
    """The plan as it was last given: units, times and VTCM; 404 without one."""
    found = reads.named_batch(store, network)
    kept = plan_of(store, found)
    if kept is None:
        raise not_found(
            f"network {found} has no plan",
            next_step="`hvxtune network plan MODEL --topology FILE --server URL` makes one",
        )
    return kept.document()


@router.put(
    "/{network}/plan", summary="Give a network its plan", status_code=204, responses=problems(404)
)
def keep_network_plan(
    network: str, body: PlanForm, request: Request, caller: Steerer, store: Store
) -> None:
    """Keeps the plan with the network, in place of an earlier one, for its page. It is planned
    where the model is: one layer of the plan for each of the network. Others' networks need the
    scope `operate`."""
    found = reads.find_batch(store, network)
    require_may_steer(caller, found, "plan")
    with store.transaction():
        keep_plan(store, found, plan_from_document(body.model_dump()))
        record(store, caller, "network.plan", found.id, None, request)


@router.get(
    "/{network}/bundle",
    summary="The best schedules of a network as one file",
    response_class=FileResponse,
    responses={**DESCRIBED, **problems(404, 409)},
)
def network_bundle(network: str, request: Request, caller: Reader, store: Store) -> FileResponse:
    """All of a bundle that does not depend on weights, which stay with their owner: for each
    workload the best schedule for warm caches and static shapes, as in `GET /v1/export`, and its
    object. `hvxtune fetch --network MODEL --from FILE` makes the bundle of it. 409 while a
    workload has none."""
    found = reads.named_batch(store, network)
    given = batch_problems(store, found)
    asked = [Problem(one.workload, Contract.STATIC, one.target) for one in given]
    wanted = {problem.digest: problem for problem in asked}
    gate: Gate = request.app.state.gate
    gate.charge(caller, len(wanted) - 1)  # the request itself counted as one
    best = _bests(store, found, wanted, caller.owner)
    written = ((one.public_id, one, store.artifact(one.artifact_digest)) for one in best)
    name = store.batch(found).label
    return exported(partial(write_schedules, found=written), f"{name}.zip")


def _bests(
    store: SqlStore, batch: str, wanted: Mapping[str, Problem], owner: str
) -> list[Schedule]:
    """The schedules that a bundle takes; 409 names what lacks one."""
    found = {
        digest: store.best(lookup_of(problem, audience=owner)) for digest, problem in wanted.items()
    }
    missing = [wanted[digest].workload.label for digest, best in found.items() if best is None]
    if missing:
        more = ", ..." if len(missing) > _NAMED else ""
        raise HttpError(
            409,
            f"no schedule is stored for {len(missing)} of {len(wanted)} workloads of {batch}: "
            f"{'; '.join(missing[:_NAMED])}{more}",
            accepted="a network each of whose jobs has a result",
            next_step=f"resume it, or tune those; GET /v1/networks/{batch} shows its jobs",
        )
    return [best for best in found.values() if best is not None]


def _steer(request: JobRequest) -> Callable[..., dict[str, Any]]:
    def route(network: str, http_request: Request, caller: Steerer, store: Store) -> dict[str, Any]:
        found = reads.find_batch(store, network)
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
    )(_steer(_request))
