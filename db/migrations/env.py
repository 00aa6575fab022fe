"""Run by Alembic to apply migrations, and to write new ones.

hvxtune hands over its own connection. From the command line (``alembic -c db/alembic.ini``) the
database is the one hvxtune itself would use.
"""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from sqlalchemy import Connection

from db import models, service_models  # noqa: F401 - fills the metadata
from db.base import Base, FreeText
from db.devices import models as device_models  # noqa: F401 - fills the metadata
from db.engine import WRITING, find_url, make_engine
from db.files import models as file_models  # noqa: F401 - fills the metadata


def _rendered(kind: str, item: Any, _context: Any) -> str | Literal[False]:
    """Columns as the database sees them: a migration names no class of ours."""
    return "sa.Text()" if kind == "type" and isinstance(item, FreeText) else False


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_item=_rendered,
    )
    with context.begin_transaction():
        context.run_migrations()


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    _run(given)
else:
    engine = make_engine(find_url(None), busy_timeout_s=10.0)
    with engine.execution_options(**WRITING).begin() as opened:
        _run(opened)
