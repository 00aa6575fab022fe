"""Jobs have objectives and a remaining gain; measurements count the bytes moved to and from DDR."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Adds four columns; earlier jobs minimized cycles."""
    op.add_column(
        "jobs", sa.Column("goals", sa.String(200), server_default="cycles", nullable=False)
    )
    op.add_column("jobs", sa.Column("remaining_expected", sa.Double(), nullable=True))
    op.add_column("jobs", sa.Column("remaining_bound", sa.Double(), nullable=True))
    op.add_column("measurements", sa.Column("ddr_bytes", sa.BigInteger(), nullable=True))
