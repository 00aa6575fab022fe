"""Who measures, how fast, and what waits."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from dashboards.session import viewing
from dashboards.templating import render
from db.comparisons import farm as farm_of
from db.sql_store import SqlStore
from service.app import store_of
from service.auth.caller import Scope

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

WINDOW_S = 600.0
"""Rates are over this long: long enough for slow kernels, short enough to show trouble."""


@router.get("/farm")
def farm(request: Request, store: Annotated[SqlStore, Depends(store_of)]) -> Response:
    """Conductors, simulators and the queue; renews itself."""
    return render(
        request,
        "farm_part.html" if request.headers.get("HX-Target") == "farm" else "farm.html",
        farm=farm_of(store, WINDOW_S),
        conductors=request.app.state.conductors_alive(),
        configured=request.app.state.settings.conductors,
        window_s=WINDOW_S,
    )
