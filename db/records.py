"""Rows into the plain records of ``tuner``, checked against their digests on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from db.failure import DamagedRowError
from db.models import (
    BatchRow,
    JobRow,
    MeasurementRow,
    ProblemRow,
    ScheduleRow,
    SpaceRow,
    ToolchainRow,
    TrialRow,
)
from tuner.errors import UserError
from tuner.identity import digest_of
from tuner.problem.target import Target
from tuner.problem.workload import Workload
from tuner.records.batch import Batch, from_document
from tuner.records.candidate import FIGURES, Measurement, Problem
from tuner.records.request import SearchOptions, as_json, from_json, options_of
from tuner.records.trial import (
    Job,
    JobSpec,
    PendingTrial,
    RemainingGain,
    Schedule,
    Submission,
    Timings,
    Trial,
)
from tuner.space import Config, Space


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Inside, whatever does not make a record means that the row is damaged."""
    try:
        yield
    except DamagedRowError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise DamagedRowError(f"{what} cannot be read ({error})") from error


def _require_digest(what: str, value: Any, digest: str) -> None:
    if digest_of(value) != digest:
        raise DamagedRowError(f"{what} is not what was stored: its digest differs")


def problem_record(row: ProblemRow) -> Problem:
    """The problem of a row."""
    of = row.workload
    workload = Workload(of.kernel, of.version, of.params, of.source)
    figures = row.target.figures
    parts = {"workload": workload.as_dict(), "contract": row.contract.value, "target": figures}
    _require_digest(f"problem {row.id}", parts, row.digest)
    return Problem(workload, row.contract, Target(**figures))


def toolchain_record(row: ToolchainRow) -> dict[str, str]:
    """The fingerprint of a row."""
    _require_digest(f"toolchain {row.id}", row.fingerprint, row.digest)
    return row.fingerprint


def space_record(row: SpaceRow) -> Space:
    """The space of a row."""
    _require_digest(f"space {row.digest[:16]}", row.document, row.digest)
    try:
        return Space.from_dict(row.document)
    except UserError as error:
        raise DamagedRowError(f"space {row.digest[:16]} cannot be read ({error})") from error


_COLUMNS = {
    "trials": "budget_trials",
    "seconds": "budget_seconds",
    "patience": "budget_patience",
    "until_gain": "budget_until_gain",
    "objectives": "goals",
    "on": "device_tags",
}
"""Options whose column has another name. One without a column is in the document ``options``."""


def option_values(spec: JobSpec) -> dict[str, Any]:
    """The columns of a job that keep its options."""
    values: dict[str, Any] = {"options": {}}
    for name, value in as_json(spec).items():
        column = _COLUMNS.get(name, name)
        if column in JobRow.__table__.columns:
            values[column] = ",".join(value) if isinstance(value, list) else value
        else:
            values["options"][name] = value
    return values


def _options(row: JobRow) -> dict[str, Any]:
    """The options of a job's row."""
    values: dict[str, Any] = {}
    for option in options_of(SearchOptions):
        column = _COLUMNS.get(option.name, option.name)
        if column in JobRow.__table__.columns:
            value = getattr(row, column)
            values[option.name] = value.split(",") if option.kind == "names" else value
    return from_json({**values, **row.options})


def job_record(row: JobRow) -> Job:
    """The job of a row."""
    spec = JobSpec(
        problem=problem_record(row.problem),
        cutoff_factor=row.cutoff_factor,
        **_options(row),
    )
    return Job(
        id=row.id,
        spec=spec,
        state=row.state,
        toolchain=toolchain_record(row.toolchain),
        space_digest=row.space_digest,
        created_at=row.created_at,
        spent_s=row.spent_s,
        note=row.note,
        submission=Submission(
            row.submitted_by,
            row.priority,
            row.batch_id,
            row.request_id,
            owner=row.tenant,
            private=bool(row.audience),
            kernel_label=row.kernel_label,
        ),
        paused=row.paused,
        remaining=_remaining(row),
    )


def batch_values(batch: Batch) -> dict[str, Any]:
    """The columns that keep a batch."""
    submission = batch.submission
    return {
        "id": batch.id,
        "kind": batch.kind,
        "name": batch.name,
        "document": batch.document(),
        "created_at": batch.created_at,
        "submitted_by": submission.user,
        "request_id": submission.request_id,
        "priority": submission.priority,
        "tenant": submission.owner,
        "audience": submission.audience,
    }


def batch_record(row: BatchRow) -> Batch:
    """The batch of a row."""
    with reading(f"the record of batch {row.id}"):
        return from_document(
            row.document,
            id=row.id,
            kind=row.kind,
            name=row.name,
            created_at=row.created_at,
            submission=Submission(
                row.submitted_by,
                row.priority,
                row.id,
                row.request_id,
                owner=row.tenant,
                private=bool(row.audience),
            ),
        )


def _remaining(row: JobRow) -> RemainingGain | None:
    if row.remaining_expected is None or row.remaining_bound is None:
        return None
    return RemainingGain(row.remaining_expected, row.remaining_bound)


def measurement_record(row: MeasurementRow) -> Measurement:
    """The measurement of a row."""
    return Measurement.from_dict({name: getattr(row, name) for name in FIGURES})


def _config(values: Mapping[str, Any], digest: str, what: str) -> Config:
    config = Config(values)
    if config.digest != digest:
        raise DamagedRowError(f"the config of {what} is not what was stored: its digest differs")
    return config


def pending_record(row: TrialRow) -> PendingTrial:
    """The pending trial of a row without outcome."""
    what = f"trial {row.number} of job {row.job_id}"
    return PendingTrial(row.number, _config(row.config, row.config_digest, what), row.origin)


def trial_record(row: TrialRow) -> Trial:
    """The finished trial of a row with an outcome."""
    what = f"trial {row.number} of job {row.job_id}"
    if row.outcome is None or row.finished_at is None:
        raise DamagedRowError(f"{what} has no outcome")
    return Trial(
        number=row.number,
        config=_config(row.config, row.config_digest, what),
        origin=row.origin,
        outcome=row.outcome,
        measurement=None if row.measurement is None else measurement_record(row.measurement),
        artifact_digest=row.artifact_digest,
        duplicate_of=row.duplicate_of,
        error=row.error,
        timings=Timings(row.compile_s, row.link_s, row.run_s, row.overhead_s),
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def schedule_record(row: ScheduleRow, problem: Problem) -> Schedule:
    """The schedule of a row of ``problem``."""
    return Schedule(
        problem=problem,
        config=_config(row.config, row.config_digest, f"schedule {row.id}"),
        generator=row.generator,
        measurement=measurement_record(row.measurement),
        artifact_digest=row.artifact_digest,
        symbol=row.symbol,
        provenance={**row.provenance, "toolchain": toolchain_record(row.toolchain)},
    )
