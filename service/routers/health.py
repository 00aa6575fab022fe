"""How the service is, as JSON.

Whether the service lives, can work, and what it has done: ``/healthz``, ``/readyz``,
``/metrics``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from db.sql_store import SqlStore
from service.app import store_of
from service.auth import Scope, require
from service.auth.gate import Gate
from service.problem_details import for_strangers
from service.schemas.common import NO_QUERY
from service.server.health import CONTENT_TYPE, Metrics
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


router = APIRouter(tags=["health"], dependencies=[NO_QUERY])


@router.get("/healthz", summary="Does the process answer?")
async def healthz() -> Alive:
    """200 while the process answers, whatever the database does. For liveness probes."""
    return Alive()


@router.get("/readyz", summary="Can the service work?", response_model_exclude_none=True)
async def readyz(request: Request, store: Annotated[SqlStore, Depends(store_of)]) -> Ready:
    """200 if something could be written to the database and beside the artifacts in the last
    seconds, else 503. For readiness probes and load balancers, without a token; with one of scope
    `read` or `operate` it says which database, and what ails it."""
    may_know = "authorization" in request.headers and await run_in_threadpool(_may_know, request)
    try:
        await request.app.state.readiness.require()
    except StoreError as error:
        raise error if may_know else for_strangers(error) from None
    if not may_know:
        return Ready(database=None, conductors=None)
    return Ready(database=store.place.name, conductors=request.app.state.conductors_alive())


def _may_know(request: Request) -> bool:
    """Whether the request shows a token that is good for more than whether all is well. With a
    wrong one it is answered as without: a probe is no place to find out."""
    gate: Gate = request.app.state.gate
    try:
        caller = gate.caller_at_hand(request) or gate.caller(request)
    except HvxtuneError:
        return False
    return caller.may(Scope.READ) or caller.may(Scope.OPERATE)


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    dependencies=[Depends(require(Scope.READ))],
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
