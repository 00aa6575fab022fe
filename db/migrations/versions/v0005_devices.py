"""Adds what a farm needs: its devices, their history, and the devices a job asks for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

STATES = ("ready", "leased", "suspect", "quarantined", "offline", "drained")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _choice(name: str, *values: str) -> sa.Enum:
    return sa.Enum(*values, name=name, native_enum=False, create_constraint=True, length=20)


def upgrade() -> None:
    """Adds the tables of the farm and a column to jobs."""
    op.add_column(
        "jobs", sa.Column("device_tags", sa.String(length=200), server_default="", nullable=False)
    )
    _create_devices()
    _create_events()


def _create_devices() -> None:
    op.create_table(
        "devices",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=50), nullable=False),
        sa.Column(
            "fidelity", _choice("fidelity", "model", "cycle_accurate", "hardware"), nullable=False
        ),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("state", _choice("state", *STATES), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("lease_holder", sa.Text(), nullable=True),
        sa.Column("lease_purpose", _choice("purpose", "work", "check"), nullable=True),
        sa.Column("lease_expires_at", sa.Double(), nullable=True),
        sa.Column("recent", sa.String(length=50), nullable=False),
        sa.Column("failed_checks", sa.BigInteger(), nullable=False),
        sa.Column("last_check_at", sa.Double(), nullable=True),
        sa.Column("last_check", sa.Text(), nullable=False),
        sa.Column("temperature_c", sa.Double(), nullable=True),
        sa.Column("gold_cycles", sa.BigInteger(), nullable=True),
        sa.Column("fingerprint", sa.JSON(), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("trials", sa.BigInteger(), nullable=False),
        sa.Column("faults", sa.BigInteger(), nullable=False),
        sa.Column("busy_s", sa.Double(), nullable=False),
        sa.Column("minutes", sa.JSON(), nullable=False),
        sa.CheckConstraint(
            "(lease_holder IS NULL) = (lease_purpose IS NULL)"
            " AND (lease_holder IS NULL) = (lease_expires_at IS NULL)",
            name=op.f("ck_devices_lease_is_whole"),
        ),
        sa.CheckConstraint(
            "state <> 'leased' OR lease_holder IS NOT NULL",
            name=op.f("ck_devices_leased_has_lease"),
        ),
        sa.CheckConstraint(
            "state <> 'quarantined' OR lease_holder IS NULL",
            name=op.f("ck_devices_quarantined_has_none"),
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_devices")),
    )


def _create_events() -> None:
    op.create_table(
        "device_events",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("device", sa.String(length=100), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("before", _choice("before", *STATES), nullable=True),
        sa.Column("after", _choice("after", *STATES), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["device"], ["devices.name"], name=op.f("fk_device_events_device")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device_events")),
    )
    op.create_index(op.f("ix_device_events_device_id"), "device_events", ["device", "id"])
