"""Proof that a service can write: a row of each machine, written again and again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "heartbeats",
        sa.Column("machine", sa.String(100), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("machine", name=op.f("pk_heartbeats")),
    )
