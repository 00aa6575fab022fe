"""Jobs may promote their most promising trials to devices of a higher fidelity."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
OUTCOMES = (
    *("ok", "infeasible", "compile_error", "compiler_crash", "timeout", "wrong_output"),
    *("run_error", "cutoff", "device_error"),
)


def upgrade() -> None:
    """Adds two columns to jobs, and a table."""
    for column in (
        sa.Column("promote_to", sa.String(length=200), server_default="", nullable=False),
        sa.Column("promote", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
    ):
        op.add_column("jobs", column)
    op.create_table(
        "promotions",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("trial_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("toolchain_id", ROW_ID, nullable=False),
        sa.Column(
            "outcome",
            sa.Enum(
                *OUTCOMES, name="outcome", native_enum=False, create_constraint=True, length=20
            ),
            nullable=True,
        ),
        sa.Column("measurement_id", ROW_ID, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "(outcome IS NOT NULL AND outcome = 'ok') = (measurement_id IS NOT NULL)",
            name=op.f("ck_promotions_measured_iff_ok"),
        ),
        sa.CheckConstraint(
            "(outcome IS NULL) = (finished_at IS NULL)",
            name=op.f("ck_promotions_pending_has_no_end"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "trial_number"],
            ["trials.job_id", "trials.number"],
            name=op.f("fk_promotions_job_id_trial_number"),
        ),
        sa.ForeignKeyConstraint(
            ["toolchain_id"], ["toolchains.id"], name=op.f("fk_promotions_toolchain_id")
        ),
        sa.ForeignKeyConstraint(
            ["measurement_id"], ["measurements.id"], name=op.f("fk_promotions_measurement_id")
        ),
        sa.PrimaryKeyConstraint("job_id", "trial_number", name=op.f("pk_promotions")),
    )
