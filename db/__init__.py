"""The database: keeps what ``tuner`` finds. Implements :class:`tuner.store.TrialStore` over SQL.

SQLite in the state directory unless ``HVXTUNE_DATABASE_URL`` names another database. Importing
this package is cheap; SQLAlchemy is imported by :func:`open_store`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from db.jobs.summary import JobSummary
    from db.sql_store import SqlStore

__all__ = ["JobSummary", "SqlStore", "open_store"]


def open_store(url: str | None = None, *, busy_timeout_s: float = 10.0) -> SqlStore:
    """Opens the database, creating or upgrading its tables if needed.

    ``url`` is ``sqlite:///FILE`` or ``postgresql://USER@HOST/DATABASE``; without it,
    ``HVXTUNE_DATABASE_URL`` or ``hvxtune.sqlite`` in the state directory. Artifacts lie in the
    folder ``artifacts`` of the state directory. ``busy_timeout_s`` is how long a SQLite database
    that another process has locked is waited for. What others could open is closed to them, with
    a warning in the log. Raises ``StoreError`` if it cannot be used.
    """
    from db.engine import find_url, make_engine, place_of
    from db.failure import store_errors
    from db.files.artifacts import ArtifactFiles
    from db.files.private import create_database_file, tightened
    from db.schema import ensure_schema
    from db.sql_store import SqlStore
    from tuner.paths import state_dir

    found = find_url(url)
    place = place_of(found)
    for note in tightened(place.path):
        logging.getLogger("hvxtune.store").warning("%s", note)
    if place.path is not None:
        create_database_file(place.path)
    with store_errors(place):
        engine = make_engine(found, busy_timeout_s)
        try:
            ensure_schema(engine, place)
        except BaseException:
            engine.dispose()
            raise
    return SqlStore(engine, place, ArtifactFiles(state_dir() / "artifacts"))
