"""The tables, as typed SQLAlchemy models. The constraints hold the invariants, not the callers.

Values that have a digest (workloads, targets, problems, spaces, toolchains, artifacts) are stored
once and never change; jobs, trials and schedules refer to them. JSON columns are SQL ``JSON``,
not PostgreSQL's ``JSONB``, because the order of parameters and knobs must survive. Times are Unix
seconds. Every change here raises ``SCHEMA_VERSION`` (``db/schema.py``).
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column, relationship

from db.base import (
    DIGEST_LENGTH,
    JOB_ID_LENGTH,
    OWNER_LENGTH,
    Base,
    Digest,
    Document,
    FreeText,
    RowId,
    batch_kind_choice,
    choice,
    fidelity_choice,
)
from tuner.problem.contract import Contract
from tuner.records.annotation import TAG_LENGTH
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState


class WorkloadRow(Base):
    """A kernel with its parameters fixed (:class:`tuner.problem.workload.Workload`)."""

    __tablename__ = "workloads"

    id: Mapped[RowId]
    digest: Mapped[Digest] = mapped_column(unique=True)
    kernel: Mapped[str] = mapped_column(String(100))
    version: Mapped[int]
    params: Mapped[Document]
    source: Mapped[str] = mapped_column(String(64), server_default="")

    __table_args__ = (Index(None, "kernel", "version"),)


class TargetRow(Base):
    """A target with all its figures (:class:`tuner.problem.target.Target`).

    The digest is unique, the name is not: figures of a named target may be corrected, and what
    was tuned for the old ones stays apart.
    """

    __tablename__ = "targets"

    id: Mapped[RowId]
    digest: Mapped[Digest] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(String(100), index=True)
    arch: Mapped[str] = mapped_column(String(20))
    soc: Mapped[str | None] = mapped_column(String(50))
    figures: Mapped[Document]


class ToolchainRow(Base):
    """Everything that decides object bytes and measured numbers, by the digest of it all.

    ``last_used_at`` is when a job was last created with it; the newest one is current.
    """

    __tablename__ = "toolchains"

    id: Mapped[RowId]
    digest: Mapped[Digest] = mapped_column(unique=True)
    fingerprint: Mapped[Document]
    last_used_at: Mapped[float]


class SpaceRow(Base):
    """A tuning space, kept so that stored configs can be checked against it again."""

    __tablename__ = "spaces"

    digest: Mapped[Digest] = mapped_column(primary_key=True)
    kernel: Mapped[str] = mapped_column(String(100))
    document: Mapped[Document]


class ProblemRow(Base):
    """A workload under a contract on a target (:class:`tuner.records.candidate.Problem`)."""

    __tablename__ = "problems"

    id: Mapped[RowId]
    digest: Mapped[Digest] = mapped_column(unique=True)
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id"))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    contract: Mapped[Contract] = mapped_column(choice(Contract, "contract"))

    workload: Mapped[WorkloadRow] = relationship(lazy="joined", innerjoin=True)
    target: Mapped[TargetRow] = relationship(lazy="joined", innerjoin=True)

    # In this order the index also finds the other contracts of a workload on a target.
    __table_args__ = (UniqueConstraint("workload_id", "target_id", "contract"),)


class JobRow(Base):
    """A job, its budget, and the claim on it.

    The ``owner_*`` columns name the process that holds the claim; ``fencing_token`` rises with
    each claim, so that a writer whose claim was taken over is recognized. ``lease_expires_at``
    bounds a claim whose owner cannot be seen from here, because it runs on another machine.
    ``requested`` is what somebody asked of the owner; a queued job that is ``paused`` is not
    taken up; ``event_count`` numbers the job's events. ``goals`` are the objectives, with commas
    between; ``options`` holds the options that have no column (:mod:`db.records`).
    ``tenant`` is whose job it is (no process), ``audience`` who sees it
    (:mod:`db.audience`); ``kernel_label`` is what people call the
    kernel, where that is not its name.
    """

    __tablename__ = "jobs"

    id: Mapped[str] = mapped_column(String(JOB_ID_LENGTH), primary_key=True)
    problem_id: Mapped[int] = mapped_column(ForeignKey("problems.id"), index=True)
    space_digest: Mapped[Digest] = mapped_column(ForeignKey("spaces.digest"))
    toolchain_id: Mapped[int] = mapped_column(ForeignKey("toolchains.id"))
    state: Mapped[JobState] = mapped_column(choice(JobState, "state"))
    sampler: Mapped[str] = mapped_column(String(100))
    seed: Mapped[int]
    generator: Mapped[str] = mapped_column(String(100))
    measurer: Mapped[str] = mapped_column(String(100))
    workers: Mapped[int]
    cutoff_factor: Mapped[float]
    budget_trials: Mapped[int | None]
    budget_seconds: Mapped[float | None]
    budget_patience: Mapped[int | None]
    created_at: Mapped[float]
    spent_s: Mapped[float] = mapped_column(server_default=text("0"))
    note: Mapped[str] = mapped_column(FreeText(), server_default="")
    fencing_token: Mapped[int] = mapped_column(server_default=text("0"))
    owner_host: Mapped[str | None] = mapped_column(String(300))
    owner_pid: Mapped[int | None]
    owner_started_at: Mapped[float | None]
    lease_expires_at: Mapped[float | None]
    cache: Mapped[str] = mapped_column(String(20), server_default="warm")
    submitted_by: Mapped[str] = mapped_column(String(100), server_default="")
    priority: Mapped[int] = mapped_column(server_default=text("0"))
    batch_id: Mapped[str | None] = mapped_column(String(JOB_ID_LENGTH), index=True)
    paused: Mapped[bool] = mapped_column(server_default=text("false"))
    requested: Mapped[str | None] = mapped_column(String(10))
    event_count: Mapped[int] = mapped_column(server_default=text("0"))
    device_tags: Mapped[str] = mapped_column(String(200), server_default="")
    promote_to: Mapped[str] = mapped_column(String(200), server_default="")
    promote: Mapped[int] = mapped_column(server_default=text("0"))
    budget_until_gain: Mapped[float | None]
    transfer: Mapped[bool] = mapped_column(server_default=text("false"))
    goals: Mapped[str] = mapped_column(String(200), server_default="cycles")
    remaining_expected: Mapped[float | None]
    remaining_bound: Mapped[float | None]
    request_id: Mapped[str] = mapped_column(String(100), server_default="")
    tenant: Mapped[str] = mapped_column(String(OWNER_LENGTH), server_default="")
    audience: Mapped[str] = mapped_column(String(OWNER_LENGTH), server_default="")
    kernel_label: Mapped[str] = mapped_column(String(200), server_default="")
    prefer: Mapped[str] = mapped_column(String(10), server_default="fastest")
    options: Mapped[Document] = mapped_column(server_default="{}")

    problem: Mapped[ProblemRow] = relationship(lazy="joined", innerjoin=True)
    toolchain: Mapped[ToolchainRow] = relationship(lazy="joined", innerjoin=True)

    __table_args__ = (
        Index(None, "created_at", "id"),
        Index(None, "state", "created_at"),
        Index(None, "submitted_by", "created_at"),
        CheckConstraint(
            "(owner_pid IS NULL) = (owner_host IS NULL)"
            " AND (owner_pid IS NULL) = (owner_started_at IS NULL)"
            " AND (owner_pid IS NULL) = (lease_expires_at IS NULL)",
            name="owner_is_whole",
        ),
        CheckConstraint("owner_pid IS NULL OR state = 'running'", name="owned_is_running"),
    )


class BatchRow(Base):
    """The jobs of a network or a set (:class:`tuner.records.batch.Batch`).

    The rows of its jobs name it. ``document`` is :meth:`tuner.records.batch.Batch.document`,
    ``plan`` :meth:`tuner.records.network_plan.NetworkPlan.document`, which lists do not read;
    ``tenant`` and ``audience`` are as for jobs.
    """

    __tablename__ = "batches"

    id: Mapped[str] = mapped_column(String(JOB_ID_LENGTH), primary_key=True)
    kind: Mapped[str] = mapped_column(batch_kind_choice())
    name: Mapped[str] = mapped_column(FreeText())
    document: Mapped[Document]
    created_at: Mapped[float]
    submitted_by: Mapped[str] = mapped_column(String(100), server_default="")
    request_id: Mapped[str] = mapped_column(String(100), server_default="")
    priority: Mapped[int] = mapped_column(server_default=text("0"))
    tenant: Mapped[str] = mapped_column(String(OWNER_LENGTH), server_default="")
    audience: Mapped[str] = mapped_column(String(OWNER_LENGTH), server_default="")
    plan: Mapped[Document | None] = mapped_column(deferred=True)


class ArtifactRow(Base):
    """A compiled object; its bytes lie in a storage (:mod:`db.files.artifacts`).

    The columns are the fields of :class:`db.files.artifacts.StoredArtifact`.
    """

    __tablename__ = "artifacts"

    digest: Mapped[Digest] = mapped_column(primary_key=True)
    symbol: Mapped[str]
    toolchain_id: Mapped[int] = mapped_column(ForeignKey("toolchains.id"))
    files: Mapped[Document]
    file_digest: Mapped[Digest]
    object_bytes: Mapped[int]
    stored_bytes: Mapped[int]
    created_at: Mapped[float]


class MeasurementRow(Base):
    """Numbers of one verified artifact on one device.

    A table of its own because one candidate may be measured at several fidelities. The columns
    are the fields of :class:`tuner.records.candidate.Measurement`; only what asks for them reads
    ``event_counts`` (:func:`db.jobs.trials.counted_trials`).
    """

    __tablename__ = "measurements"

    id: Mapped[RowId]
    artifact_digest: Mapped[Digest] = mapped_column(ForeignKey("artifacts.digest"), index=True)
    fidelity: Mapped[str] = mapped_column(fidelity_choice())
    device: Mapped[str]
    cycles: Mapped[int]
    verified: Mapped[bool]
    samples: Mapped[list[int]]
    breakdown: Mapped[Document]
    code_bytes: Mapped[int]
    core_cycles: Mapped[int] = mapped_column(server_default=text("0"))
    cache: Mapped[str] = mapped_column(String(20), server_default="warm")
    packets: Mapped[int | None]
    stalls: Mapped[int | None]
    temperature_c: Mapped[float | None]
    vtcm_bytes: Mapped[int | None]
    ddr_bytes: Mapped[int | None]
    overhead_cycles: Mapped[int | None]
    expected_cycles: Mapped[int | None]
    lowest_cycles: Mapped[int | None]
    highest_cycles: Mapped[int | None]
    event_counts: Mapped[Document | None] = mapped_column(deferred=True)

    __table_args__ = (CheckConstraint("verified IS TRUE", name="verified"),)


class TrialRow(Base):
    """One candidate's way through a job. Without an outcome it was handed out and is pending."""

    __tablename__ = "trials"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    config: Mapped[Document]
    config_digest: Mapped[Digest]
    origin: Mapped[str]
    outcome: Mapped[Outcome | None] = mapped_column(choice(Outcome, "outcome"))
    measurement_id: Mapped[int | None] = mapped_column(ForeignKey("measurements.id"))
    artifact_digest: Mapped[Digest | None] = mapped_column(ForeignKey("artifacts.digest"))
    duplicate_of: Mapped[int | None]
    error: Mapped[str | None] = mapped_column(FreeText())
    compile_s: Mapped[float] = mapped_column(server_default=text("0"))
    link_s: Mapped[float] = mapped_column(server_default=text("0"))
    run_s: Mapped[float] = mapped_column(server_default=text("0"))
    overhead_s: Mapped[float] = mapped_column(server_default=text("0"))
    started_at: Mapped[float]
    finished_at: Mapped[float | None]

    measurement: Mapped[MeasurementRow | None] = relationship(lazy="joined")

    __table_args__ = (
        Index(None, "finished_at"),  # who was served lately, and how much
        # Deferred, because trials of one transaction may be written in any order.
        ForeignKeyConstraint(
            ["job_id", "duplicate_of"],
            ["trials.job_id", "trials.number"],
            deferrable=True,
            initially="DEFERRED",
        ),
        CheckConstraint(
            "(outcome IS NOT NULL AND outcome = 'ok') = (measurement_id IS NOT NULL)",
            name="measured_iff_ok",
        ),
        CheckConstraint("outcome <> 'ok' OR artifact_digest IS NOT NULL", name="ok_has_artifact"),
        CheckConstraint(
            "(outcome IS NULL) = (finished_at IS NULL)"
            " AND (outcome IS NOT NULL OR (artifact_digest IS NULL"
            " AND duplicate_of IS NULL AND error IS NULL))",
            name="pending_has_no_result",
        ),
        CheckConstraint("duplicate_of <> number", name="duplicate_of_another"),
    )


class PromotionRow(Base):
    """A trial's object measured once more, at a higher fidelity
    (:class:`tuner.records.trial.Promotion`). Without an outcome it is pending."""

    __tablename__ = "promotions"

    job_id: Mapped[str] = mapped_column(String(JOB_ID_LENGTH), primary_key=True)
    trial_number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    toolchain_id: Mapped[int] = mapped_column(ForeignKey("toolchains.id"))
    outcome: Mapped[Outcome | None] = mapped_column(choice(Outcome, "outcome"))
    measurement_id: Mapped[int | None] = mapped_column(ForeignKey("measurements.id"))
    error: Mapped[str | None] = mapped_column(FreeText())
    started_at: Mapped[float]
    finished_at: Mapped[float | None]

    measurement: Mapped[MeasurementRow | None] = relationship(lazy="joined")
    toolchain: Mapped[ToolchainRow] = relationship(lazy="joined", innerjoin=True)

    __table_args__ = (
        ForeignKeyConstraint(["job_id", "trial_number"], ["trials.job_id", "trials.number"]),
        CheckConstraint(
            "(outcome IS NOT NULL AND outcome = 'ok') = (measurement_id IS NOT NULL)",
            name="measured_iff_ok",
        ),
        CheckConstraint("(outcome IS NULL) = (finished_at IS NULL)", name="pending_has_no_end"),
    )


class ScheduleRow(Base):
    """The best of a problem by one rule at one fidelity with one toolchain, with its provenance,
    or a former best that is quarantined.

    ``cycles``, ``expected_cycles`` (``cycles`` where nothing is assumed) and ``cache`` repeat the
    measurement's, for the best-query, whose index holds all that decides, and for the rule that
    only a better schedule replaces a stored one: by ``prefer``. ``job_id`` and
    ``trial_number`` are absent for a schedule that came from elsewhere. ``provenance`` is stored
    without the toolchain, which is a row. ``public_id`` names it for clients: that of the trial it
    came from, on whatever machine. A quarantined schedule is never handed out, nor offered again
    while it stays so. ``seal`` ties the object to the problem and the config
    (:mod:`db.schedules.validation`); ``judged`` marks a config that was found in its space
    (:mod:`tuner.codegen.judged`). ``tenant``
    and ``audience`` are those of its job: a private best is kept in addition to the shared one.
    """

    __tablename__ = "schedules"

    id: Mapped[RowId]
    problem_id: Mapped[int] = mapped_column(ForeignKey("problems.id"))
    fidelity: Mapped[str] = mapped_column(fidelity_choice())
    toolchain_id: Mapped[int] = mapped_column(ForeignKey("toolchains.id"))
    prefer: Mapped[str] = mapped_column(String(10))
    cycles: Mapped[int]
    expected_cycles: Mapped[int]
    config: Mapped[Document]
    config_digest: Mapped[Digest]
    generator: Mapped[str] = mapped_column(String(100))
    measurement_id: Mapped[int] = mapped_column(ForeignKey("measurements.id"))
    artifact_digest: Mapped[Digest] = mapped_column(ForeignKey("artifacts.digest"))
    symbol: Mapped[str]
    job_id: Mapped[str | None] = mapped_column(String(JOB_ID_LENGTH))
    trial_number: Mapped[int | None]
    provenance: Mapped[Document]
    updated_at: Mapped[float]
    public_id: Mapped[str] = mapped_column(String(40), index=True)
    quarantined_at: Mapped[float | None]
    quarantine_reason: Mapped[str] = mapped_column(FreeText(), server_default="")
    cache: Mapped[str] = mapped_column(String(20), server_default="warm")
    judged: Mapped[str] = mapped_column(String(DIGEST_LENGTH), server_default="")
    tenant: Mapped[str] = mapped_column(String(OWNER_LENGTH), server_default="")
    audience: Mapped[str] = mapped_column(String(OWNER_LENGTH), server_default="")
    seal: Mapped[str] = mapped_column(String(64), server_default="")

    measurement: Mapped[MeasurementRow] = relationship(lazy="joined", innerjoin=True)
    toolchain: Mapped[ToolchainRow] = relationship(lazy="joined", innerjoin=True)

    __table_args__ = (
        Index(
            "ux_schedules_handed_out",
            *("problem_id", "fidelity", "toolchain_id", "audience", "prefer"),
            unique=True,
            sqlite_where=text("quarantined_at IS NULL"),
            postgresql_where=text("quarantined_at IS NULL"),
        ),
        # All that decides which schedule of a problem is the best: see db/schedules/serving.py.
        Index(
            "ix_schedules_standings",
            *("problem_id", "cache", "quarantined_at", "fidelity", "toolchain_id", "cycles"),
            *("expected_cycles", "audience"),
        ),
        ForeignKeyConstraint(["job_id", "trial_number"], ["trials.job_id", "trials.number"]),
    )


class JobEventRow(Base):
    """Something that happened to a job, in the order in which it was committed.

    ``kind`` and ``data`` are those of :class:`db.jobs.events.JobEvent`.
    """

    __tablename__ = "job_events"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[float]
    kind: Mapped[str] = mapped_column(String(20))
    data: Mapped[Document]


class AnnotationRow(Base):
    """The comment that people wrote to a job (:mod:`db.jobs.annotations`).

    This table and tags have no foreign key to ``jobs``: the check of one would lock a row
    that conductors lock for every trial. Jobs are never deleted.
    """

    __tablename__ = "annotations"

    job_id: Mapped[str] = mapped_column(String(JOB_ID_LENGTH), primary_key=True)
    comment: Mapped[str] = mapped_column(FreeText(), server_default="")


class JobTagRow(Base):
    """A tag of a job."""

    __tablename__ = "job_tags"

    job_id: Mapped[str] = mapped_column(String(JOB_ID_LENGTH), primary_key=True)
    tag: Mapped[str] = mapped_column(String(TAG_LENGTH), primary_key=True, index=True)
