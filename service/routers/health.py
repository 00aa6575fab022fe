"""Whether the service lives, can work, and what it has done: ``/healthz``, ``/readyz``,
``/metrics``."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from db.jobs.conductors import conductors
from service.app_state import READS, Store
from service.auth import Scope
from service.auth.gate import Gate
from service.health import CONTENT_TYPE, Metrics
from service.http_errors import for_strangers
from tuner.errors import HvxtuneError, StoreError


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """The service can do its work."""

    status: Literal["ready"] = "ready"
    database: str | None = Field(
        None,
        examples=["/var/lib/hvxtune/hvxtune.sqlite"],
        description="The one that answered, without its password.",
    )
    conductors: int | None = Field(
        None, examples=[1], description="Processes of this service that run jobs; others may, too."
    )
    unfit: list[str] | None = Field(
        None,
        examples=[["process 4711 on lab7: artifacts: ..."]],
        description="Conductors, of this service or elsewhere, that take up no job, and why.",
    )


router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Does the process answer?")
async def healthz() -> Alive:
    """200 while the process answers, whatever the database does. For liveness probes."""
    return Alive()


@router.get("/readyz", summary="Can the service work?", response_model_exclude_none=True)
async def readyz(request: Request, store: Store) -> Ready:
    """200 if the database and the artifacts' disk took a write in the last seconds, else 503. For
    readiness probes and load balancers, without a token; with scope `read` or `operate` it says
    which database, and what is wrong with it."""
    may_know = "authorization" in request.headers and await run_in_threadpool(_may_know, request)
    try:
        await request.app.state.readiness.require()
    except StoreError as error:
        raise error if may_know else for_strangers(error) from None
    if not may_know:
        return Ready(database=None, conductors=None, unfit=None)
    listed = await run_in_threadpool(conductors, store)
    return Ready(
        database=store.place.name,
        conductors=request.app.state.conductors_alive(),
        unfit=[f"{one.label}: {one.reason}" for one in listed if not one.fit],
    )


def _may_know(request: Request) -> bool:
    """Whether the request has a token that may see more than whether all is well. A wrong one
    counts as none: a probe is not a way to guess tokens."""
    gate: Gate = request.app.state.gate
    try:
        caller = gate.caller_at_hand(request) or gate.caller(request)
    except HvxtuneError:
        return False
    return caller.may(Scope.READ) or caller.may(Scope.OPERATE)


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    dependencies=READS,
    response_class=PlainTextResponse,
    responses={
        200: {
            "description": "Prometheus's text form.",
            "content": {"text/plain": {"example": 'hvxtune_jobs{state="queued"} 3.0\n'}},
        }
    },
)
def metrics(request: Request) -> PlainTextResponse:
    """Jobs by state, trials by outcome, request latencies by route, conductors, devices."""
    found: Metrics = request.app.state.metrics
    return PlainTextResponse(found.text(), media_type=CONTENT_TYPE)
