"""Conductors list themselves, fit or not, with what they can do."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.create_table(
        "conductors",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("host", sa.String(length=300), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("slots", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.String(length=50), nullable=False),
        sa.Column("artifacts", sa.Text(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conductors")),
    )
    op.create_index(op.f("ix_conductors_expires_at"), "conductors", ["expires_at"])


def downgrade() -> None:
    """Conductors that run list themselves again after the next upgrade."""
    op.drop_table("conductors")
