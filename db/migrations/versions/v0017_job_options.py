"""Options of jobs that have no column of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Adds a document; jobs from before have the defaults of all such options."""
    op.add_column("jobs", sa.Column("options", sa.JSON(), server_default="{}", nullable=False))
