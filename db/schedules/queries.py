"""Schedules by id, in pages, and side by side by target or toolchain."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, Select, String, cast, func, or_, select
from sqlalchemy.orm import Session

from db.database import Database
from db.models import (
    ArtifactRow,
    JobRow,
    MeasurementRow,
    ProblemRow,
    ScheduleRow,
    SpaceRow,
    TargetRow,
    ToolchainRow,
    TrialRow,
    WorkloadRow,
)
from db.records import job_record, problem_record, space_record
from db.schedules.serving import ServingRow
from db.schedules.validation import seal_of
from tuner.keeping.best import Standing, in_order
from tuner.problem.contract import Contract
from tuner.records.candidate import CacheState, Fidelity, Problem
from tuner.space import Space

_ID = re.compile(r"[0-9a-z]{1,16}-[0-9]{1,9}p?")


@dataclass(frozen=True)
class StoredSchedule:
    """A schedule with its problem and cache state. ``files`` maps the kinds of its artifact's files
    to the SHA-256 of their bytes. ``quarantined_at`` is when it was quarantined, if it is.
    ``space`` is the one it was found in, where that is stored and was asked for."""

    row: ServingRow
    problem: Problem
    cache: CacheState
    files: Mapping[str, str]
    quarantined_at: float | None
    quarantine_reason: str
    space: Space | None = None
    tenant: str = ""
    private: bool = False

    @property
    def name(self) -> str:
        """The kernel's display name: that of an upload, or its own."""
        return str(json.loads(self.row.provenance).get("kernel_label", "")) or (
            self.problem.workload.kernel
        )


def find(database: Database, public_id: str) -> StoredSchedule | None:
    """The schedule that clients know as ``public_id``: a stored one, or any ``ok`` trial's."""
    if _ID.fullmatch(public_id) is None:
        return None  # PostgreSQL cannot search for every text: none holds NUL
    with database.reading() as session:
        wanted = _schedules().where(ScheduleRow.public_id == public_id).limit(1)
        found = session.execute(wanted).first()
        if found is not None:
            return _with_space(session, _stored(*found), found[0].provenance)
        job_id, _, number = public_id.rpartition("-")
        trial = session.get(TrialRow, (job_id, int(number))) if number.isdigit() else None
        if trial is None or trial.measurement is None or trial.artifact_digest is None:
            return None
        return _of_trial(session, trial)


def page(
    database: Database,
    *,
    kernel: str | None = None,
    target: str | None = None,
    contract: Contract | None = None,
    fidelity: Fidelity | None = None,
    quarantined: bool | None = None,
    text: str | None = None,
    below: int | None = None,
    limit: int = 50,
) -> list[StoredSchedule]:
    """Schedules, newest first, of those with a row id under ``below``. Each word of ``text`` is
    part of the kernel's name or display name, the parameters (``m=256``), the target, the contract
    or the id."""
    wanted = _schedules().order_by(ScheduleRow.id.desc()).limit(limit)
    for column, value in (
        (WorkloadRow.kernel, kernel),
        (TargetRow.name, target),
        (ProblemRow.contract, contract),
        (ScheduleRow.fidelity, fidelity),
    ):
        if value is not None:
            wanted = wanted.where(column == value)
    if quarantined is not None:
        there = ScheduleRow.quarantined_at
        wanted = wanted.where(there.is_not(None) if quarantined else there.is_(None))
    if below is not None:
        wanted = wanted.where(ScheduleRow.id < below)
    for word in (text or "").replace("\0", "").split()[:MOST_WORDS]:
        wanted = wanted.where(_has_word(word, stored_kernels(database)))
    with database.reading() as session:
        return [_stored(*row) for row in session.execute(wanted)]


def _has_word(word: str, kernels: Sequence[StoredKernel]) -> ColumnElement[bool]:
    named = [one.kernel for one in kernels if word.lower() in one.name.lower()]
    name, equals, value = word.partition("=")
    if equals:  # as it stands in the canonical JSON of the parameters
        of_params = cast(WorkloadRow.params, String)
        return or_(*(of_params.contains(f'"{name}":{gap}{value}{end}', autoescape=True)
                     for gap in ("", " ") for end in (",", "}")))  # fmt: skip
    texts = (TargetRow.name, cast(ProblemRow.contract, String), ScheduleRow.public_id)
    found = (one.icontains(word, autoescape=True) for one in texts)
    return or_(WorkloadRow.kernel.in_(named), *found)


MOST_WORDS = 8
"""Of a search; more are not looked at."""


@dataclass(frozen=True)
class StoredKernel:
    """A kernel of which ``schedules`` are stored, its display name ``label``, and when the latest
    of them was found."""

    kernel: str
    label: str
    schedules: int
    latest_at: float

    @property
    def name(self) -> str:
        """For people."""
        return self.label or self.kernel


def stored_kernels(database: Database) -> list[StoredKernel]:
    """Every kernel of which a schedule is stored, by name."""
    counts = (
        select(
            WorkloadRow.kernel,
            func.count(ScheduleRow.id),
            func.max(ScheduleRow.id),
            func.max(ScheduleRow.updated_at),
        )
        .join(ProblemRow, ScheduleRow.problem_id == ProblemRow.id)
        .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
        .group_by(WorkloadRow.kernel)
    )
    with database.reading() as session:
        rows = session.execute(counts).all()
        latest = [row[2] for row in rows]
        told = select(ScheduleRow.id, ScheduleRow.provenance).where(ScheduleRow.id.in_(latest))
        labels = {
            number: str(provenance.get("kernel_label", ""))
            for number, provenance in session.execute(told)
        }
    found = [StoredKernel(kernel, labels.get(last, ""), n, at) for kernel, n, last, at in rows]
    return sorted(found, key=lambda one: (one.name.lower(), -one.latest_at))


def _schedules() -> Select[ScheduleRow, ProblemRow, ArtifactRow]:
    return (
        select(ScheduleRow, ProblemRow, ArtifactRow)
        .join(ProblemRow, ScheduleRow.problem_id == ProblemRow.id)
        .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
        .join(TargetRow, ProblemRow.target_id == TargetRow.id)
        .join(MeasurementRow, ScheduleRow.measurement_id == MeasurementRow.id)
        .join(ArtifactRow, ScheduleRow.artifact_digest == ArtifactRow.digest)
    )


def _stored(schedule: ScheduleRow, problem: ProblemRow, artifact: ArtifactRow) -> StoredSchedule:
    cache: CacheState = schedule.measurement.cache  # type: ignore[assignment]
    return StoredSchedule(
        row=_serving_row(schedule, problem.contract, artifact),
        problem=problem_record(problem),
        cache=cache,
        files=artifact.files,
        quarantined_at=schedule.quarantined_at,
        quarantine_reason=schedule.quarantine_reason,
        tenant=schedule.tenant,
        private=bool(schedule.audience),
    )


def _of_trial(session: Session, trial: TrialRow) -> StoredSchedule:
    job = session.get_one(JobRow, trial.job_id)
    artifact = session.get_one(ArtifactRow, trial.artifact_digest)
    assert trial.measurement is not None  # noqa: S101 - the caller saw to it
    provenance = job_record(job).provenance(trial.number, trial.finished_at)
    del provenance["toolchain"]  # it is a row
    problem = problem_record(job.problem)
    schedule = ScheduleRow(
        id=0,
        public_id=f"{job.id}-{trial.number}",
        fidelity=trial.measurement.fidelity,
        prefer=job.prefer,
        cycles=trial.measurement.cycles,
        toolchain=job.toolchain,
        measurement=trial.measurement,
        config=trial.config,
        config_digest=trial.config_digest,
        generator=job.generator,
        symbol=artifact.symbol,
        provenance=provenance,
        updated_at=trial.finished_at,
        quarantined_at=None,
        quarantine_reason="",
        # Trials are not sealed: this only says that its object belongs to its problem.
        seal=seal_of(
            problem,
            config_digest=trial.config_digest,
            generator=job.generator,
            symbol=problem.symbol,
            artifact_digest=trial.artifact_digest or "",
        ),
        tenant=job.tenant,
        audience=job.audience,
        judged="",
    )
    return _with_space(session, _stored(schedule, job.problem, artifact), schedule.provenance)


def _with_space(
    session: Session, found: StoredSchedule, provenance: Mapping[str, Any]
) -> StoredSchedule:
    row = session.get(SpaceRow, str(provenance.get("space_digest", "")))
    return found if row is None else replace(found, space=space_record(row))


def _serving_row(schedule: ScheduleRow, contract: Contract, artifact: ArtifactRow) -> ServingRow:
    toolchain: ToolchainRow = schedule.toolchain
    measurement: MeasurementRow = schedule.measurement
    return ServingRow(
        id=schedule.id,
        contract=contract,
        public_id=schedule.public_id,
        fidelity=schedule.fidelity,  # type: ignore[arg-type]
        cycles=schedule.cycles,
        toolchain_used_at=toolchain.last_used_at,
        toolchain_digest=toolchain.digest,
        toolchain=_text(toolchain.fingerprint),
        config=_text(schedule.config),
        config_digest=schedule.config_digest,
        generator=schedule.generator,
        symbol=schedule.symbol,
        provenance=_text(schedule.provenance),
        updated_at=schedule.updated_at,
        artifact_digest=artifact.digest,
        artifact_file_digest=artifact.file_digest,
        object_bytes=artifact.object_bytes,
        stored_bytes=artifact.stored_bytes,
        device=measurement.device,
        packets=measurement.packets,
        stalls=measurement.stalls,
        core_cycles=measurement.core_cycles,
        code_bytes=measurement.code_bytes,
        breakdown=_text(measurement.breakdown),
        samples=_text(measurement.samples),
        temperature_c=measurement.temperature_c,
        vtcm_bytes=measurement.vtcm_bytes,
        seal=schedule.seal,
        overhead_cycles=measurement.overhead_cycles,
        judged=schedule.judged,
        prefer=schedule.prefer,  # type: ignore[arg-type]
        expected_cycles=measurement.expected_cycles,
        lowest_cycles=measurement.lowest_cycles,
        highest_cycles=measurement.highest_cycles,
    )


def _text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


MOST_BESTS = 5000


@dataclass(frozen=True)
class StoredBest:
    """A stored best with its cycles and every sample of them."""

    kernel: str
    params: Mapping[str, int] = field(hash=False)
    contract: str = ""
    target: str = ""
    fidelity: str = ""
    cache: str = ""
    cycles: int = 0
    expected_cycles: int = 0
    """``cycles`` where nothing is assumed."""
    prefer: str = "fastest"
    lowest_cycles: int | None = None
    highest_cycles: int | None = None
    samples: tuple[int, ...] = ()
    public_id: str | None = None
    label: str = ""
    """The display name of an upload."""


@dataclass(frozen=True)
class Toolchain:
    """A toolchain that schedules were made with."""

    digest: str
    fingerprint: Mapping[str, str] = field(hash=False)
    last_used_at: float = 0.0


def bests(
    database: Database, *, target: str = "", toolchain: str = "", contract: Contract | None = None
) -> list[StoredBest]:
    """The schedules on a target, of a toolchain (by digest) or under a contract that are not
    quarantined. Those of one problem and cache state come best first."""
    wanted = (
        select(
            WorkloadRow.kernel,
            WorkloadRow.params,
            ProblemRow.contract,
            TargetRow.name,
            ScheduleRow.fidelity,
            MeasurementRow.cache,
            ScheduleRow.cycles,
            ScheduleRow.expected_cycles,
            ScheduleRow.prefer,
            MeasurementRow.lowest_cycles,
            MeasurementRow.highest_cycles,
            MeasurementRow.samples,
            ScheduleRow.public_id,
            MeasurementRow.overhead_cycles,
            ScheduleRow.provenance,
            ToolchainRow.last_used_at,
            ToolchainRow.digest,
            ToolchainRow.fingerprint,
            ProblemRow.workload_id,
        )
        .join(ProblemRow, ScheduleRow.problem_id == ProblemRow.id)
        .join(WorkloadRow, ProblemRow.workload_id == WorkloadRow.id)
        .join(TargetRow, ProblemRow.target_id == TargetRow.id)
        .join(MeasurementRow, ScheduleRow.measurement_id == MeasurementRow.id)
        .join(ToolchainRow, ScheduleRow.toolchain_id == ToolchainRow.id)
        .where(ScheduleRow.quarantined_at.is_(None))
        .order_by(ToolchainRow.last_used_at.desc(), ScheduleRow.id)
        .limit(MOST_BESTS)
    )
    if target:
        wanted = wanted.where(TargetRow.name == target)
    if toolchain:
        wanted = wanted.where(ToolchainRow.digest == toolchain)
    if contract is not None:
        wanted = wanted.where(ProblemRow.contract == contract)
    with database.reading() as session:
        rows = session.execute(wanted).all()
    fingerprints = {row.digest: row.fingerprint for row in rows}
    alike: dict[tuple[int, str, str], list[Any]] = {}
    for row in rows:
        alike.setdefault((row.workload_id, row.name, row.cache), []).append(row)
    return [
        StoredBest(
            kernel=row.kernel,
            params=row.params,
            contract=row.contract.value,
            target=row.name,
            fidelity=row.fidelity,
            cache=row.cache,
            cycles=row.cycles,
            expected_cycles=row.expected_cycles,
            prefer=row.prefer,
            lowest_cycles=row.lowest_cycles,
            highest_cycles=row.highest_cycles,
            samples=_net(row.samples, row.overhead_cycles),
            public_id=row.public_id,
            label=str(row.provenance.get("kernel_label", "")),
        )
        for several in alike.values()
        for row in in_order(several, _standing, fingerprints.__getitem__)
    ]


def _standing(row: Any) -> Standing:
    return row.fidelity, row.last_used_at, row.digest, row.expected_cycles, row.contract


def _net(samples: Sequence[int], overhead_cycles: int | None) -> tuple[int, ...]:
    """As :attr:`tuner.records.candidate.Measurement.net_samples`."""
    return tuple(max(sample - (overhead_cycles or 0), 1) for sample in samples)


def toolchains(database: Database) -> list[Toolchain]:
    """Every toolchain that a job was created with, the current one first."""
    wanted = select(ToolchainRow).order_by(ToolchainRow.last_used_at.desc()).limit(100)
    with database.reading() as session:
        return [
            Toolchain(row.digest, row.fingerprint, row.last_used_at)
            for row in session.scalars(wanted)
        ]
