"""Devices of the farm: their states and history, taking them out and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from db.devices.roster import SqlRoster
from service import reads
from service.app_state import READS, Operator, Store
from service.devices import steer
from service.http_errors import absent
from service.openapi import problems
from service.schemas import paging
from service.schemas.devices import (
    DeviceEventPage,
    DeviceEventsQuery,
    DeviceForm,
    DeviceList,
    ReasonBody,
)

router = APIRouter(prefix="/v1", tags=["devices"])


@router.get("/devices", summary="All devices", response_model=DeviceList, dependencies=READS)
def list_devices(store: Store) -> dict[str, Any]:
    """Every device that a farm file on any machine of the service names, and what waits for
    them."""
    return reads.devices(store)


@router.get(
    "/devices/{name}/events",
    summary="The history of a device",
    response_model=DeviceEventPage,
    responses=problems(404),
    dependencies=READS,
)
def list_device_events(
    name: str, query: Annotated[DeviceEventsQuery, Query()], store: Store
) -> dict[str, Any]:
    """Its changes of state with their reasons, newest first. Leases of a healthy device are
    counted in `trials` and not told."""
    before = paging.number_before(query.cursor)
    with absent():
        found = SqlRoster(store).events(name, query.limit + 1, before)
    return paging.page(
        found, query.limit, lambda event: event.as_dict(), lambda event: [event.number]
    )


def _steer(verb: str) -> Callable[..., dict[str, Any]]:
    def route(
        name: str,
        request: Request,
        caller: Operator,
        store: Store,
        body: ReasonBody | None = None,
    ) -> dict[str, Any]:
        reason = "" if body is None else body.reason
        return steer(store, caller, name, verb, reason, request).as_dict(time.time())

    return route


for _verb, _summary, _text in (
    (
        "drain",
        "Take a device out",
        "It finishes the candidates it works on and gets no more until it is released.",
    ),
    (
        "quarantine",
        "Take a device out at once",
        "Its work under way does not count and is measured elsewhere.",
    ),
    (
        "release",
        "Let a device come back",
        "A drained or quarantined device is `suspect` until it has passed a check.",
    ),
):
    router.post(
        f"/devices/{{name}}/{_verb}",
        name=f"{_verb}_device",
        summary=_summary,
        description=f"{_text} 409 if its state does not allow it.",
        response_model=DeviceForm,
        responses=problems(404, 409),
    )(_steer(_verb))
