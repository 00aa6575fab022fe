"""People write a comment and tags to jobs, pin some, and save views of the list."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Adds tables. None refers to ``jobs``, so that no edit waits for a trial that is committed."""
    op.create_table(
        "annotations",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("comment", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_annotations")),
    )
    op.create_table(
        "job_tags",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("tag", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "tag", name=op.f("pk_job_tags")),
    )
    op.create_index(op.f("ix_job_tags_tag"), "job_tags", ["tag"])
    op.create_table(
        "pins",
        sa.Column("pinned_by", sa.String(length=100), nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("pinned_by", "job_id", name=op.f("pk_pins")),
    )
    op.create_table(
        "saved_views",
        sa.Column("saved_by", sa.String(length=100), nullable=False),
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("saved_by", "name", name=op.f("pk_saved_views")),
    )


def downgrade() -> None:
    """Jobs stay; what people wrote to them is gone."""
    for table in ("saved_views", "pins", "job_tags", "annotations"):
        op.drop_table(table)
