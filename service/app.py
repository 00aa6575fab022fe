"""The web application: routes over one store."""

from __future__ import annotations

from fastapi import FastAPI, Request

from db.sql_store import SqlStore
from service import problem_details
from service.auth.gate import Gate
from service.routers import include_all
from service.settings import Settings


def create_app(store: SqlStore, gate: Gate, settings: Settings) -> FastAPI:
    """The application over ``store``, which stays the caller's to close.

    ``gate`` tells callers apart. Nothing runs in the background yet: the conductor is a process
    of its own, and whoever serves the application starts it.
    """
    app = FastAPI(
        title="hvxtune",
        summary="Finds fast schedules for Hexagon HVX kernels and hands them to compilers.",
        version="1",
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    app.state.store = store
    app.state.gate = gate
    app.state.settings = settings
    problem_details.install(app)
    include_all(app)
    return app


def store_of(request: Request) -> SqlStore:
    """A dependency: the store of the application. Its methods block: use it in ``def`` routes,
    which run in threads, or by ``run_in_threadpool``."""
    store: SqlStore = request.app.state.store
    return store


def settings_of(request: Request) -> Settings:
    """A dependency: what the service was started with."""
    settings: Settings = request.app.state.settings
    return settings
