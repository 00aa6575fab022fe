"""How much VTCM a candidate touches is kept beside its cycles."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Adds a column; empty for what was measured before."""
    op.add_column("measurements", sa.Column("vtcm_bytes", sa.BigInteger(), nullable=True))
