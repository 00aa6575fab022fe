"""Jobs, uploads, schedules and tokens have an owner; what an owner keeps private is hidden; a name
of an upload belongs to the owner who gave it."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

DIGEST = sa.String(length=64)
OWNER = sa.String(length=100)
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAMED_DIGITS = 12
_KEY = ("problem_id", "fidelity", "toolchain_id")
_STANDINGS = ("problem_id", "cache", "quarantined_at", "fidelity", "toolchain_id", "cycles")


def upgrade() -> None:
    """Existing rows belong to their makers, where known, and stay shared."""
    _own_tokens()
    _own_jobs()
    _own_schedules()
    _make_pipelines_anew()
    _label()


def _own_tokens() -> None:
    op.add_column("tokens", sa.Column("owner", OWNER, server_default="", nullable=False))
    op.add_column(
        "tokens", sa.Column("reads", sa.String(length=10), server_default="own", nullable=False)
    )
    op.execute("UPDATE tokens SET owner = name")


def _own_jobs() -> None:
    for name, length in (("tenant", 100), ("audience", 100), ("kernel_label", 200)):
        kind = sa.String(length=length)
        op.add_column("jobs", sa.Column(name, kind, server_default="", nullable=False))
    op.execute("UPDATE jobs SET tenant = submitted_by")


def _own_schedules() -> None:
    for name in ("tenant", "audience"):
        op.add_column("schedules", sa.Column(name, OWNER, server_default="", nullable=False))
    op.execute(
        "UPDATE schedules SET tenant = (SELECT tenant FROM jobs WHERE jobs.id = schedules.job_id)"
        " WHERE job_id IS NOT NULL"
    )
    handed_out = sa.text("quarantined_at IS NULL")
    op.drop_index("ux_schedules_handed_out", "schedules")
    op.create_index(
        "ux_schedules_handed_out",
        "schedules",
        [*_KEY, "audience"],
        unique=True,
        sqlite_where=handed_out,
        postgresql_where=handed_out,
    )
    op.drop_index("ix_schedules_standings", "schedules")
    op.create_index("ix_schedules_standings", "schedules", [*_STANDINGS, "audience"])


def _make_pipelines_anew() -> None:
    """Their key was the digest, which several tenants may upload now. They are few."""
    before = sa.table(
        "pipelines",
        *(sa.column(name) for name in ("digest", "name", "submitted_by", "upload_bytes")),
        sa.column("description", sa.JSON()),
        sa.column("created_at"),
    )
    rows = [dict(row._mapping) for row in op.get_bind().execute(sa.select(before))]
    op.drop_table("pipelines")
    made = op.create_table(
        "pipelines",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("kernel", sa.String(length=100), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("tenant", OWNER, nullable=False),
        sa.Column("audience", OWNER, nullable=False),
        sa.Column("submitted_by", sa.String(length=100), nullable=False),
        sa.Column("upload_bytes", sa.BigInteger(), nullable=False),
        sa.Column("description", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pipelines")),
        sa.UniqueConstraint(
            "tenant", "name", "digest", name=op.f("uq_pipelines_tenant_name_digest")
        ),
    )
    for columns in (
        ["digest"],
        ["kernel"],
        ["tenant", "name", "created_at"],
        ["submitted_by", "created_at"],
    ):
        op.create_index(op.f(f"ix_pipelines_{'_'.join(columns)}"), "pipelines", columns)
    if rows:
        op.bulk_insert(made, [{**row, **_owned(row)} for row in rows])


def _owned(row: dict[str, Any]) -> dict[str, str]:
    kernel = f"pipeline:{row['digest'][:_NAMED_DIGITS]}"
    return {"kernel": kernel, "tenant": row["submitted_by"], "audience": ""}


def _label() -> None:
    """Jobs and schedules of uploads get the names that people gave those."""
    op.execute(
        "UPDATE jobs SET kernel_label = COALESCE((SELECT u.name FROM problems p"
        " JOIN workloads w ON w.id = p.workload_id JOIN pipelines u ON u.kernel = w.kernel"
        " WHERE p.id = jobs.problem_id), '')"
    )
    connection = op.get_bind()
    unlabelled = sa.text(
        "SELECT s.id, CAST(s.provenance AS TEXT), u.name FROM pipelines u"
        " JOIN workloads w ON w.kernel = u.kernel JOIN problems p ON p.workload_id = w.id"
        " JOIN schedules s ON s.problem_id = p.id"
    )
    schedules = sa.table("schedules", sa.column("id"), sa.column("provenance", sa.JSON()))
    for row_id, provenance, name in connection.execute(unlabelled).all():
        labelled = {**json.loads(provenance), "kernel_label": name}
        connection.execute(
            sa.update(schedules).where(schedules.c.id == row_id).values(provenance=labelled)
        )
