"""Sessions of browsers can be ended, and requests are found again in jobs and in the audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Adds a table, and a column to two; requests of before have no id."""
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("token_id", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_expires_at"), "sessions", ["expires_at"])
    op.create_index(op.f("ix_sessions_token_id_created_at"), "sessions", ["token_id", "created_at"])
    for table in ("jobs", "audit"):
        op.add_column(
            table,
            sa.Column("request_id", sa.String(length=100), server_default="", nullable=False),
        )
