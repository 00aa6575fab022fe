"""The database: keeps what ``tuner`` finds. Implements :class:`tuner.keeping.store.TrialStore`
over SQL.

SQLite in the state directory unless ``HVXTUNE_DATABASE_URL`` names another store. The scheme of the
URL says which class opens it: those in :data:`STORES`, and those that installed packages add by an
entry point of the group ``hvxtune.stores``::

    [project.entry-points."hvxtune.stores"]
    mongodb = "my_package.mongo:MongoStore"

``tuner/conformance/stores.py`` is the suite that such a class passes. Importing this package does
not import SQLAlchemy: the store that needs it does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from db.place import URL_VARIABLE
from tuner.errors import StoreError, UserError
from tuner.keeping.store import TrialStore
from tuner.registry import Registry

if TYPE_CHECKING:
    from db.jobs.queries import JobSummary
    from db.sql_store import SqlStore

__all__ = ["STORES", "URL_VARIABLE", "JobSummary", "SqlStore", "open_store", "open_trials"]

STORES: Final[Registry[TrialStore]] = Registry(
    "store",
    "hvxtune.stores",
    {
        "sqlite": "db.sql_store:SqlStore",
        "postgresql": "db.sql_store:SqlStore",
    },
    TrialStore,
    choose_with=f"set {URL_VARIABLE}, or leave it out for SQLite in the state directory",
)
"""Classes of stores by the scheme of the URLs that they open."""


def open_trials(url: str | None = None) -> TrialStore:
    """Opens the store at ``url``, else at ``HVXTUNE_DATABASE_URL``, else as :func:`open_store`.

    Raises ``StoreError`` if no class opens such URLs, or the store cannot be used, and
    ``ToolchainError`` naming the package whose class cannot be loaded.
    """
    found = url or os.environ.get(URL_VARIABLE) or None
    try:
        kind = STORES.find(_scheme(found or "") or "sqlite")
    except UserError as error:
        raise StoreError(
            error.message, accepted=error.accepted, next_step=error.next_step
        ) from None
    return kind.open(found)


def open_store(
    url: str | None = None, *, artifacts: str | None = None, busy_timeout_s: float = 10.0
) -> SqlStore:
    """Opens a SQL database, creating or upgrading its tables if needed.

    ``url`` is ``sqlite:///FILE`` or ``postgresql://USER@HOST/DATABASE``; without it,
    ``HVXTUNE_DATABASE_URL`` or ``hvxtune.sqlite`` in the state directory. ``artifacts`` says where
    artifacts lie, as :func:`db.files.storages.open_storage` takes it; without it,
    ``HVXTUNE_ARTIFACTS`` or the folder ``artifacts`` of the state directory. ``busy_timeout_s`` is
    how long a SQLite database that another process has locked is waited for. What others could
    open is closed to them, with a warning in the log. Raises ``StoreError`` if it cannot be used,
    and for the URL of a store that a package added: such a store has jobs, trials and schedules,
    but no tokens, devices or listings.
    """
    from db.sql_store import SqlStore

    return SqlStore.open(url, artifacts=artifacts, busy_timeout_s=busy_timeout_s)


def _scheme(url: str) -> str:
    """``postgresql`` of ``postgresql+psycopg://...``; empty for what is not a URL."""
    scheme, separator, _ = url.partition(":")
    return scheme.partition("+")[0].lower() if separator else ""
