"""The devices, their speed and the queue; one device, and taking it out and back."""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import RedirectResponse, Response

from dashboards.session import Form, form_of, viewing
from dashboards.templating import render
from db.devices.roster import SqlRoster
from db.sql_store import SqlStore
from db.tallies import count_jobs
from service.app_state import store_of
from service.auth.caller import Scope
from service.devices import steer, verbs_for
from service.http_errors import absent
from service.json_forms import conductors_json
from service.sub_path import published

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

MOST_REASON_CHARS = 500
EVENTS = 50


@router.get("/farm")
def farm(request: Request, store: Annotated[SqlStore, Depends(store_of)]) -> Response:
    """Conductors, devices and the queue; renews itself."""
    return render(
        request,
        "farm_part.html" if request.headers.get("HX-Target") == "farm" else "farm.html",
        jobs=count_jobs(store),
        devices=SqlRoster(store).devices(),
        now=time.time(),
        conductors=request.app.state.conductors_alive(),
        listed=conductors_json(store),
        configured=request.app.state.settings.conductors,
    )


@router.get("/farm/{name}")
def device(
    request: Request,
    name: str,
    store: Annotated[SqlStore, Depends(store_of)],
    before: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """One device: its state, its history, and the requests it accepts."""
    roster = SqlRoster(store)
    with absent():
        record = roster.device(name)
    events = roster.events(name, EVENTS + 1, before)
    return render(
        request,
        "device.html",
        device=record,
        verbs=verbs_for(record.state),
        events=events[:EVENTS],
        more=events[EVENTS - 1].number if len(events) > EVENTS else None,
        now=time.time(),
    )


@router.post("/farm/{name}/{verb}")
def act(
    request: Request,
    name: str,
    verb: str,
    form: Annotated[Form, Depends(form_of(Scope.OPERATE))],
    store: Annotated[SqlStore, Depends(store_of)],
) -> Response:
    """Takes a device out, or lets it come back."""
    reason = form.text("reason")[:MOST_REASON_CHARS]
    steer(store, form.viewer.caller, name, verb, reason, request)
    return RedirectResponse(published(request, f"/farm/{quote(name, safe='')}"), 303)
