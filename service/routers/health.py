"""Whether the service lives, can work, and what it has done: ``/healthz``, ``/readyz``,
``/metrics``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse

from db.sql_store import SqlStore
from service.app import store_of
from service.auth import Scope, require
from service.metrics import CONTENT_TYPE, Metrics
from service.schemas.common import NO_QUERY
from service.schemas.health import Alive, Ready

router = APIRouter(tags=["health"], dependencies=[NO_QUERY])


@router.get("/healthz", summary="Does the process answer?")
async def healthz() -> Alive:
    """200 while the process answers, whatever the database does. For liveness probes."""
    return Alive()


@router.get("/readyz", summary="Can the service work?")
async def readyz(request: Request, store: Annotated[SqlStore, Depends(store_of)]) -> Ready:
    """200 if something could be written to the database and beside the artifacts in the last
    seconds, else 503, which says what is wrong. For readiness probes and load balancers."""
    await request.app.state.readiness.require()
    return Ready(
        database="postgresql" if store.place.path is None else "sqlite",
        conductors=request.app.state.conductors_alive(),
    )


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
