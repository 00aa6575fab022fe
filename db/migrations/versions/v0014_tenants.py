"""Jobs, uploads, schedules and tokens have an owner; what an owner keeps private is hidden; a name
of an upload belongs to the owner who gave it; webhooks report the ends of jobs."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

DIGEST = sa.String(length=64)
OWNER = sa.String(length=100)
JOB = sa.String(length=16)
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
    _create_webhooks()


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


def _create_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant", OWNER, nullable=False),
        sa.Column("audience", OWNER, nullable=False),
        sa.Column("job_id", JOB, nullable=True),
        sa.Column("everybodys", sa.Boolean(), nullable=False),
        sa.Column("url", sa.String(length=2000), nullable=False),
        sa.Column("secret", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("removed_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    op.create_index(op.f("ix_webhooks_tenant"), "webhooks", ["tenant"])
    op.create_index(op.f("ix_webhooks_job_id"), "webhooks", ["job_id"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("webhook_id", sa.String(length=32), nullable=False),
        sa.Column("job_id", JOB, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=True),
        sa.Column("leased_until", sa.Double(), nullable=True),
        sa.Column("status", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("delivered_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name=op.f("fk_webhook_deliveries_webhook_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
        sa.UniqueConstraint(
            "webhook_id", "job_id", name=op.f("uq_webhook_deliveries_webhook_id_job_id")
        ),
    )
    op.create_index(op.f("ix_webhook_deliveries_webhook_id"), "webhook_deliveries", ["webhook_id"])
    op.create_index(op.f("ix_webhook_deliveries_due_at"), "webhook_deliveries", ["due_at"])
