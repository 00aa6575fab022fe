"""Measurements hold the cycles without DDR's share; of older ones they are not known (0)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds one column."""
    op.add_column(
        "measurements",
        sa.Column("core_cycles", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
    )
