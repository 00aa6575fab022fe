"""Jobs may stop at a remaining gain, and say whether they begin with what near ones found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Adds two columns; jobs of before began with nothing of others."""
    op.add_column("jobs", sa.Column("budget_until_gain", sa.Double(), nullable=True))
    op.add_column(
        "jobs", sa.Column("transfer", sa.Boolean(), server_default=sa.false(), nullable=False)
    )
