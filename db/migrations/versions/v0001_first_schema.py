"""The first schema: problems, jobs, trials, artifacts, measurements, schedules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

DIGEST = sa.String(length=64)
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Creates all tables."""
    _create_catalogue()
    _create_jobs()
    _create_results()
    _create_trials()
    _create_schedules()


def _create_catalogue() -> None:
    """The records that jobs and schedules refer to: stored once, named by digest."""
    op.create_table(
        "workloads",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("kernel", sa.String(length=100), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workloads")),
        sa.UniqueConstraint("digest", name=op.f("uq_workloads_digest")),
    )
    op.create_index(op.f("ix_workloads_kernel_version"), "workloads", ["kernel", "version"])
    op.create_table(
        "targets",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("arch", sa.String(length=20), nullable=False),
        sa.Column("soc", sa.String(length=50), nullable=True),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_targets")),
        sa.UniqueConstraint("digest", name=op.f("uq_targets_digest")),
    )
    op.create_index(op.f("ix_targets_name"), "targets", ["name"])
    op.create_table(
        "problems",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("workload_id", ROW_ID, nullable=False),
        sa.Column("target_id", ROW_ID, nullable=False),
        sa.Column(
            "contract",
            sa.Enum(
                "none",
                "host",
                "stride",
                "extent",
                "static",
                name="contract",
                native_enum=False,
                create_constraint=True,
                length=20,
            ),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"], name=op.f("fk_problems_target_id")),
        sa.ForeignKeyConstraint(
            ["workload_id"], ["workloads.id"], name=op.f("fk_problems_workload_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_problems")),
        sa.UniqueConstraint("digest", name=op.f("uq_problems_digest")),
        sa.UniqueConstraint(
            "workload_id",
            "target_id",
            "contract",
            name=op.f("uq_problems_workload_id_target_id_contract"),
        ),
    )
    op.create_table(
        "toolchains",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("fingerprint", sa.JSON(), nullable=False),
        sa.Column("last_used_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_toolchains")),
        sa.UniqueConstraint("digest", name=op.f("uq_toolchains_digest")),
    )
    op.create_table(
        "spaces",
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("kernel", sa.String(length=100), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_spaces")),
    )


def _create_jobs() -> None:
    """Jobs with their budget and claim."""
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("problem_id", ROW_ID, nullable=False),
        sa.Column("space_digest", DIGEST, nullable=False),
        sa.Column("toolchain_id", ROW_ID, nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "queued",
                "running",
                "done",
                "failed",
                "cancelled",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=20,
            ),
            nullable=False,
        ),
        sa.Column("sampler", sa.String(length=100), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("generator", sa.String(length=100), nullable=False),
        sa.Column("measurer", sa.String(length=100), nullable=False),
        sa.Column("workers", sa.BigInteger(), nullable=False),
        sa.Column("cutoff_factor", sa.Double(), nullable=False),
        sa.Column("budget_trials", sa.BigInteger(), nullable=True),
        sa.Column("budget_seconds", sa.Double(), nullable=True),
        sa.Column("budget_patience", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("spent_s", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.Column("fencing_token", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("owner_host", sa.String(length=300), nullable=True),
        sa.Column("owner_pid", sa.BigInteger(), nullable=True),
        sa.Column("owner_started_at", sa.Double(), nullable=True),
        sa.Column("lease_expires_at", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "owner_pid IS NULL OR state = 'running'", name=op.f("ck_jobs_owned_is_running")
        ),
        sa.CheckConstraint(
            "(owner_pid IS NULL) = (owner_host IS NULL)"
            " AND (owner_pid IS NULL) = (owner_started_at IS NULL)"
            " AND (owner_pid IS NULL) = (lease_expires_at IS NULL)",
            name=op.f("ck_jobs_owner_is_whole"),
        ),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name=op.f("fk_jobs_problem_id")),
        sa.ForeignKeyConstraint(
            ["space_digest"], ["spaces.digest"], name=op.f("fk_jobs_space_digest")
        ),
        sa.ForeignKeyConstraint(
            ["toolchain_id"], ["toolchains.id"], name=op.f("fk_jobs_toolchain_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_created_at_id"), "jobs", ["created_at", "id"])
    op.create_index(op.f("ix_jobs_problem_id"), "jobs", ["problem_id"])
    op.create_index(op.f("ix_jobs_state_created_at"), "jobs", ["state", "created_at"])


def _create_results() -> None:
    """Compiled objects and the numbers measured on them."""
    op.create_table(
        "artifacts",
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("symbol", sa.Text(), nullable=False),
        sa.Column("toolchain_id", ROW_ID, nullable=False),
        sa.Column("files", sa.JSON(), nullable=False),
        sa.Column("file_digest", DIGEST, nullable=False),
        sa.Column("object_bytes", sa.BigInteger(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["toolchain_id"], ["toolchains.id"], name=op.f("fk_artifacts_toolchain_id")
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_artifacts")),
    )
    op.create_table(
        "measurements",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("artifact_digest", DIGEST, nullable=False),
        sa.Column(
            "fidelity",
            sa.Enum(
                "model",
                "cycle_accurate",
                "hardware",
                name="fidelity",
                native_enum=False,
                create_constraint=True,
                length=20,
            ),
            nullable=False,
        ),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("cycles", sa.BigInteger(), nullable=False),
        sa.Column("packets", sa.BigInteger(), nullable=False),
        sa.Column("stalls", sa.BigInteger(), nullable=False),
        sa.Column("verified", sa.Boolean(), nullable=False),
        sa.Column("samples", sa.JSON(), nullable=False),
        sa.Column("breakdown", sa.JSON(), nullable=False),
        sa.Column("code_bytes", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("verified IS TRUE", name=op.f("ck_measurements_verified")),
        sa.ForeignKeyConstraint(
            ["artifact_digest"], ["artifacts.digest"], name=op.f("fk_measurements_artifact_digest")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measurements")),
    )
    op.create_index(op.f("ix_measurements_artifact_digest"), "measurements", ["artifact_digest"])


def _create_trials() -> None:
    """Trials; without an outcome they are pending."""
    op.create_table(
        "trials",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("config_digest", DIGEST, nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column(
            "outcome",
            sa.Enum(
                "ok",
                "infeasible",
                "compile_error",
                "compiler_crash",
                "timeout",
                "wrong_output",
                "run_error",
                "cutoff",
                "device_error",
                name="outcome",
                native_enum=False,
                create_constraint=True,
                length=20,
            ),
            nullable=True,
        ),
        sa.Column("measurement_id", ROW_ID, nullable=True),
        sa.Column("artifact_digest", DIGEST, nullable=True),
        sa.Column("duplicate_of", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("compile_s", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("link_s", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("run_s", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("overhead_s", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "(outcome IS NOT NULL AND outcome = 'ok') = (measurement_id IS NOT NULL)",
            name=op.f("ck_trials_measured_iff_ok"),
        ),
        sa.CheckConstraint(
            "outcome <> 'ok' OR artifact_digest IS NOT NULL", name=op.f("ck_trials_ok_has_artifact")
        ),
        sa.CheckConstraint(
            "(outcome IS NULL) = (finished_at IS NULL)"
            " AND (outcome IS NOT NULL OR (artifact_digest IS NULL"
            " AND duplicate_of IS NULL AND error IS NULL))",
            name=op.f("ck_trials_pending_has_no_result"),
        ),
        sa.CheckConstraint("duplicate_of <> number", name=op.f("ck_trials_duplicate_of_another")),
        sa.ForeignKeyConstraint(
            ["artifact_digest"], ["artifacts.digest"], name=op.f("fk_trials_artifact_digest")
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "duplicate_of"],
            ["trials.job_id", "trials.number"],
            name=op.f("fk_trials_job_id_duplicate_of"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_trials_job_id")),
        sa.ForeignKeyConstraint(
            ["measurement_id"], ["measurements.id"], name=op.f("fk_trials_measurement_id")
        ),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_trials")),
    )


def _create_schedules() -> None:
    """The best of each problem, fidelity and toolchain."""
    op.create_table(
        "schedules",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("problem_id", ROW_ID, nullable=False),
        sa.Column(
            "fidelity",
            sa.Enum(
                "model",
                "cycle_accurate",
                "hardware",
                name="fidelity",
                native_enum=False,
                create_constraint=True,
                length=20,
            ),
            nullable=False,
        ),
        sa.Column("toolchain_id", ROW_ID, nullable=False),
        sa.Column("cycles", sa.BigInteger(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("config_digest", DIGEST, nullable=False),
        sa.Column("generator", sa.String(length=100), nullable=False),
        sa.Column("measurement_id", ROW_ID, nullable=False),
        sa.Column("artifact_digest", DIGEST, nullable=False),
        sa.Column("symbol", sa.Text(), nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=True),
        sa.Column("trial_number", sa.BigInteger(), nullable=True),
        sa.Column("provenance", sa.JSON(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["artifact_digest"], ["artifacts.digest"], name=op.f("fk_schedules_artifact_digest")
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "trial_number"],
            ["trials.job_id", "trials.number"],
            name=op.f("fk_schedules_job_id_trial_number"),
        ),
        sa.ForeignKeyConstraint(
            ["measurement_id"], ["measurements.id"], name=op.f("fk_schedules_measurement_id")
        ),
        sa.ForeignKeyConstraint(
            ["problem_id"], ["problems.id"], name=op.f("fk_schedules_problem_id")
        ),
        sa.ForeignKeyConstraint(
            ["toolchain_id"], ["toolchains.id"], name=op.f("fk_schedules_toolchain_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.UniqueConstraint(
            "problem_id",
            "fidelity",
            "toolchain_id",
            name=op.f("uq_schedules_problem_id_fidelity_toolchain_id"),
        ),
    )
