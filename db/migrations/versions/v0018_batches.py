"""Batches have a record: the network or set, and the layers of each job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Adds a table. Batches from before have no row; their jobs still name them."""
    op.create_table(
        "batches",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column(
            "kind",
            sa.Enum(
                *("network", "set"),
                name="kind",
                native_enum=False,
                create_constraint=True,
                length=20,
            ),
            nullable=False,
        ),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("submitted_by", sa.String(length=100), server_default="", nullable=False),
        sa.Column("request_id", sa.String(length=100), server_default="", nullable=False),
        sa.Column("priority", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("tenant", sa.String(length=100), server_default="", nullable=False),
        sa.Column("audience", sa.String(length=100), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
    )
