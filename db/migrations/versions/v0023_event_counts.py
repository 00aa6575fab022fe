"""Measurements of a timing model keep the events that it made cycles of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Adds a column; nobody kept the events of earlier measurements."""
    op.add_column("measurements", sa.Column("event_counts", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Cycles stay; how they depend on assumed costs is unknown again."""
    op.drop_column("measurements", "event_counts")
