"""Pages for people: what runs, what it found, why it is fast, where it fails.

Server-rendered HTML over the same functions that the REST routes use, served by the service under
``/ui``. Nothing here is needed to tune or to build; nothing else imports it.
"""

from __future__ import annotations

from fastapi import FastAPI


def install(app: FastAPI) -> None:
    """Adds the pages to the service ``app``; called by it, by name (``Settings.pages``)."""
    from dashboards.application import add_pages

    add_pages(app)
