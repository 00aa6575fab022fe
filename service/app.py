"""The web application: routes over one store."""

from __future__ import annotations

import threading
from importlib import import_module

from fastapi import FastAPI
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from db.sql_store import SqlStore
from service import openapi, problem_details
from service.admission.bodies import BodyLimit, HeadRequests, UnreadBodies
from service.admission.lookups import Lookers, Lookups
from service.admission.shares import Shares
from service.admission.unfinished import UnfinishedRequests
from service.auth.gate import Gate
from service.auth.guard import Guard
from service.health import Metrics, MetricsMiddleware, Readiness
from service.request_ids import RequestIds
from service.routers import include_all
from service.schedules.answers import Answers, FastRoute
from service.settings import Settings
from service.sub_path import SubPath


def create_app(
    store: SqlStore, gate: Gate, settings: Settings, lookers: Lookers | None = None
) -> FastAPI:
    """The application over ``store``, which stays the caller's to close.

    ``gate`` finds callers; ``lookers`` answer best-queries that are not at hand, by default in a
    thread. It starts no background work: conductors are processes of their own, which
    ``service.server.serving`` starts. ``state.stopping`` is set when the service ends: endless
    answers look at it.
    """
    app = bare_app(store, gate, settings, lookers)
    app.state.preparations = ()  # calls that spare the first visitors some time
    app.state.conductors_alive = lambda: 0
    app.state.answers = Answers(store)
    app.state.readiness = Readiness(store)
    app.state.metrics = Metrics(store, lambda: app.state.conductors_alive())
    if settings.root_path:
        # Innermost: limits and the fast route go by the paths that the proxy forwards.
        app.add_middleware(SubPath, root_path=settings.root_path)
    app.add_middleware(Shares)
    app.add_middleware(FastRoute, answers=app.state.answers)
    app.add_middleware(BodyLimit, uploads=settings.upload_limits)
    app.add_middleware(Guard)
    app.add_middleware(HeadRequests)
    app.add_middleware(MetricsMiddleware, metrics=app.state.metrics, root_path=settings.root_path)
    app.add_middleware(UnreadBodies)
    app.add_middleware(UnfinishedRequests)
    app.add_middleware(RequestIds)
    if settings.trusted_proxies:
        # Outermost: all within, and the server's log of requests, see the address it finds.
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.trusted_proxies))
    openapi.install(app)
    if settings.pages:
        import_module(settings.pages).install(app)
    return app


def bare_app(
    store: SqlStore, gate: Gate, settings: Settings, lookers: Lookers | None = None
) -> FastAPI:
    """The routes alone, for a process that asks itself: whoever calls says who it is
    (``scope["state"]["caller"]``), and nobody is kept out."""
    app = FastAPI(
        title="hvxtune",
        summary="Finds fast schedules for Hexagon HVX kernels and hands them to compilers.",
        version="1",
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        docs_url=None,  # a page for people, with scripts: dashboards has it
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,  # functions of generated clients
    )
    app.state.store = store
    app.state.gate = gate
    app.state.settings = settings
    app.state.stopping = threading.Event()
    app.state.self_guarded = ()
    app.state.lookups = Lookups(store, lookers)
    problem_details.install(app)
    include_all(app)
    return app
