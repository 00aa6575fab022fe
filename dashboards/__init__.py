"""Pages for people: jobs, their results, explanations and failures.

Server-rendered HTML over the functions that the REST routes use, served under ``/ui``. Tuning and
builds do not need it, and nothing imports it.
"""

from __future__ import annotations

from fastapi import FastAPI


def install(app: FastAPI) -> None:
    """Adds the pages to the service ``app``; called by it, by name (``Settings.pages``)."""
    from dashboards.application import add_pages

    add_pages(app)
