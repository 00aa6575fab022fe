"""The dependencies of routes: who asks, and the store, settings and lookups of the application."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from db.sql_store import SqlStore
from service.admission.lookups import Lookups
from service.auth.caller import Caller, Scope, caller_of
from service.auth.guard import require
from service.settings import Settings


def store_of(request: Request) -> SqlStore:
    """A dependency: the store of the application, limited to what the caller may see. Its
    methods block: use it in ``def`` routes, which run in threads, or by ``run_in_threadpool``."""
    store: SqlStore = request.app.state.store
    caller = caller_of(request.scope)
    if caller is None:
        return store.seen_by("")
    return store.seen_by(None if caller.sees_all else caller.owner)


Store = Annotated[SqlStore, Depends(store_of)]

Reader = Annotated[Caller, Depends(require(Scope.READ))]
Submitter = Annotated[Caller, Depends(require(Scope.SUBMIT))]
Steerer = Annotated[Caller, Depends(require(Scope.SUBMIT, Scope.OPERATE))]
"""May steer their own jobs, or everybody's."""
Operator = Annotated[Caller, Depends(require(Scope.OPERATE))]
Admin = Annotated[Caller, Depends(require(Scope.ADMIN))]
READS = [Depends(require(Scope.READ))]
"""``dependencies`` of routes that may be read by all who may read, and do not ask who it is."""


def settings_of(request: Request) -> Settings:
    """A dependency: what the service was started with."""
    settings: Settings = request.app.state.settings
    return settings


def lookups_of(request: Request) -> Lookups:
    """A dependency: best-queries that are not at hand."""
    lookups: Lookups = request.app.state.lookups
    return lookups


ServiceSettings = Annotated[Settings, Depends(settings_of)]
