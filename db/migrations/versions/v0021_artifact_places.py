"""Artifacts may lie in the database, and a mark says where those of a database are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Adds two empty tables: artifacts of before stay where they are."""
    op.create_table(
        "artifact_bytes",
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("written_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_artifact_bytes")),
    )
    op.create_table(
        "artifact_marks",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("written_by", sa.Text(), nullable=False),
        sa.Column("written_at", sa.Double(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_artifact_marks_one_mark")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_artifact_marks")),
    )


def downgrade() -> None:
    """Refuses to throw artifacts away: those in the database have no other place."""
    kept = op.get_bind().execute(sa.text("SELECT count(*) FROM artifact_bytes")).scalar_one()
    if kept:
        raise RuntimeError(
            f"{kept} artifacts lie in the database: back it up, restore it with HVXTUNE_ARTIFACTS"
            " naming a folder, and go down then"
        )
    op.drop_table("artifact_marks")
    op.drop_table("artifact_bytes")
