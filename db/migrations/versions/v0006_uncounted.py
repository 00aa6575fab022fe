"""Packets and stalls may be unknown, as on phones, and a device may have a temperature."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Makes two columns nullable and adds one.

    SQLite cannot alter a column, and recreating the table would break the references to it while
    they are enforced. So the columns are recreated, and come last here as in PostgreSQL.
    """
    for name in ("packets", "stalls"):
        op.execute(f"ALTER TABLE measurements RENAME COLUMN {name} TO counted_{name}")
        op.add_column("measurements", sa.Column(name, sa.BigInteger(), nullable=True))
        op.execute(f"UPDATE measurements SET {name} = counted_{name}")  # noqa: S608 - names above
        op.execute(f"ALTER TABLE measurements DROP COLUMN counted_{name}")
    op.add_column("measurements", sa.Column("temperature_c", sa.Double(), nullable=True))
