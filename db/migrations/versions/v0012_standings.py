"""All that decides which schedule is the best lies in one index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Copies the cache state into schedules, and replaces the index by problem with one that begins
    with it. Configs stored earlier are judged whenever they are read, until they are offered
    again."""
    for column in (
        sa.Column("cache", sa.String(length=20), server_default="warm", nullable=False),
        sa.Column("judged", sa.String(length=64), server_default="", nullable=False),
    ):
        op.add_column("schedules", column)
    op.execute(
        "UPDATE schedules SET cache ="
        " (SELECT m.cache FROM measurements m WHERE m.id = schedules.measurement_id)"
        " WHERE measurement_id IN (SELECT id FROM measurements WHERE cache <> 'warm')"
    )
    op.drop_index(op.f("ix_schedules_problem_id"), "schedules")
    op.create_index(
        "ix_schedules_standings",
        "schedules",
        ["problem_id", "cache", "quarantined_at", "fidelity", "toolchain_id", "cycles"],
    )
