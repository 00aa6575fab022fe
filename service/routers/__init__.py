"""The routes, one file for each kind of resource. One line in ``ROUTERS`` adds a file."""

from __future__ import annotations

from importlib import import_module

from fastapi import APIRouter, FastAPI

from service.named_once import KNOWN_AND_NAMED_ONCE

ROUTERS: tuple[str, ...] = (
    "service.routers.best",  # first: routes are tried in turn, and this one is used most
    "service.routers.health",
    "service.routers.catalogue",
    "service.routers.pipelines",
    "service.routers.packages",
    "service.routers.schedules",
    "service.routers.exchange",
    "service.routers.tokens",
    "service.routers.jobs",
    "service.routers.networks",
    "service.routers.job_trials",
    "service.routers.job_events",
    "service.routers.devices",
)
"""Modules with a ``router``."""


def include_all(app: FastAPI) -> None:
    """Adds the routes of every module to ``app``. None guesses which of two values was meant."""
    for name in ROUTERS:
        router: APIRouter = import_module(name).router
        app.include_router(router, dependencies=[KNOWN_AND_NAMED_ONCE])
