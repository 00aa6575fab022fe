"""Jobs and measurements say in which state the caches were; all earlier ones were warm."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds a column to each."""
    for table in ("jobs", "measurements"):
        op.add_column(
            table, sa.Column("cache", sa.String(length=20), server_default="warm", nullable=False)
        )
