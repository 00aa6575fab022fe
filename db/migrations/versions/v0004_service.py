"""Adds what a service needs: a job's submitter and priority, events, tokens, uploads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

DIGEST = sa.String(length=64)
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Adds columns to jobs and schedules, and the service's own tables."""
    _extend_jobs()
    _extend_schedules()
    _create_events()
    _create_access()
    _create_pipelines()


def _extend_jobs() -> None:
    for column in (
        sa.Column("submitted_by", sa.String(length=100), server_default="", nullable=False),
        sa.Column("priority", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("batch_id", sa.String(length=16), nullable=True),
        sa.Column("paused", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("requested", sa.String(length=10), nullable=True),
        sa.Column("event_count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
    ):
        op.add_column("jobs", column)
    op.create_index(op.f("ix_jobs_batch_id"), "jobs", ["batch_id"])
    op.create_index(op.f("ix_jobs_submitted_by_created_at"), "jobs", ["submitted_by", "created_at"])
    op.create_index(op.f("ix_trials_finished_at"), "trials", ["finished_at"])


def _extend_schedules() -> None:
    for column in (
        sa.Column("public_id", sa.String(length=40), nullable=True),
        sa.Column("quarantined_at", sa.Double(), nullable=True),
        sa.Column("quarantine_reason", sa.Text(), server_default="", nullable=False),
    ):
        op.add_column("schedules", column)
    op.execute("UPDATE schedules SET public_id = job_id || '-' || trial_number")
    op.create_index(op.f("ix_schedules_public_id"), "schedules", ["public_id"])


def _create_events() -> None:
    op.create_table(
        "job_events",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_events_job_id")),
        sa.PrimaryKeyConstraint("job_id", "sequence", name=op.f("pk_job_events")),
    )


def _create_access() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("secret_digest", DIGEST, nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("quotas", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.Column("last_used_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )
    op.create_index(op.f("ix_tokens_name"), "tokens", ["name"])
    op.create_table(
        "audit",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("token_id", sa.String(length=16), nullable=True),
        sa.Column("action", sa.String(length=100), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("client", sa.String(length=100), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"])
    op.create_table(
        "idempotency",
        sa.Column("token_id", sa.String(length=16), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("request_digest", DIGEST, nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=False),
        sa.Column("answer", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("token_id", "key", name=op.f("pk_idempotency")),
    )
    op.create_index(op.f("ix_idempotency_created_at"), "idempotency", ["created_at"])


def _create_pipelines() -> None:
    op.create_table(
        "pipelines",
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("submitted_by", sa.String(length=100), nullable=False),
        sa.Column("upload_bytes", sa.BigInteger(), nullable=False),
        sa.Column("description", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_pipelines")),
    )
    op.create_index(op.f("ix_pipelines_name"), "pipelines", ["name"])
    op.create_index(
        op.f("ix_pipelines_submitted_by_created_at"), "pipelines", ["submitted_by", "created_at"]
    )
