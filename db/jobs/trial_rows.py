"""All trials of a job with their configs, as bare as an analysis needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import select

from db.models import MeasurementRow, TrialRow
from db.sql_store import SqlStore
from tuner.records.outcome import Outcome
from tuner.space.config import KnobValue


@dataclass(frozen=True)
class AnalysedTrial:
    """A trial. Without ``outcome`` and ``finished_at`` it runs; without ``cycles`` it failed.

    ``samples`` are all repeats in cycles, ``config`` is as stored and not checked again.
    """

    number: int
    outcome: Outcome | None
    origin: str
    config: Mapping[str, KnobValue] = field(hash=False)
    started_at: float
    finished_at: float | None
    cycles: int | None
    code_bytes: int | None
    vtcm_bytes: int | None
    samples: tuple[int, ...]
    ddr_bytes: int | None = None


def analysed_trials(store: SqlStore, job_id: str, limit: int) -> list[AnalysedTrial]:
    """The last ``limit`` trials of a job by number, running ones included."""
    wanted = (
        select(
            TrialRow.number,
            TrialRow.outcome,
            TrialRow.origin,
            TrialRow.config,
            TrialRow.started_at,
            TrialRow.finished_at,
            MeasurementRow.cycles,
            MeasurementRow.code_bytes,
            MeasurementRow.vtcm_bytes,
            MeasurementRow.samples,
            MeasurementRow.ddr_bytes,
        )
        .outerjoin(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(TrialRow.job_id == job_id)
        .order_by(TrialRow.number.desc())
        .limit(limit)
    )
    with store.reading() as session:
        return [
            AnalysedTrial(**{**row._mapping, "samples": tuple(row.samples or ())})
            for row in reversed(session.execute(wanted).all())
        ]
