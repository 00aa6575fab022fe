"""What happened to a job, numbered: what a client that lost its connection catches up by.

Events are written in the transaction of what they tell, which holds the job's row: their numbers
rise in the order of commits, without gaps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from db.models import JobEventRow, JobRow
from tuner.records.promotion import Promotion
from tuner.records.trial import JobState, RemainingGain


@dataclass(frozen=True)
class JobEvent:
    """One event. ``kind`` is ``trial`` (``data`` has its ``number``), ``promotion`` (one came back:
    ``trial``, ``outcome``, ``cycles``), ``estimate`` (of the remaining gain: ``expected``,
    ``bound``) or ``state`` (``state``, ``paused``, ``note``). ``at`` is Unix time in seconds."""

    sequence: int
    at: float
    kind: str
    data: Mapping[str, Any] = field(hash=False)


def add_trials(session: Session, job_id: str, numbers: Sequence[int]) -> None:
    """Trials with these numbers have finished."""
    _add(session, job_id, "trial", [{"number": number} for number in numbers])


def add_promotions(session: Session, job_id: str, promotions: Sequence[Promotion]) -> None:
    """Those of these that have an outcome have come back."""
    told = [
        {
            "trial": one.trial,
            "outcome": one.outcome.value,
            "cycles": None if one.measurement is None else one.measurement.cycles,
        }
        for one in promotions
        if one.outcome is not None
    ]
    _add(session, job_id, "promotion", told)


def add_estimate(session: Session, job_id: str, remaining: RemainingGain) -> None:
    """More search is likely to find so much."""
    _add(session, job_id, "estimate", [asdict(remaining)])


def add_state(
    session: Session, job_id: str, state: JobState, *, paused: bool = False, note: str = ""
) -> None:
    """The job is in this state now."""
    _add(session, job_id, "state", [{"state": state.value, "paused": paused, "note": note}])


def _add(session: Session, job_id: str, kind: str, data: Sequence[Mapping[str, Any]]) -> None:
    if not data:
        return
    raised = (
        update(JobRow)
        .where(JobRow.id == job_id)
        .values(event_count=JobRow.event_count + len(data))
        .returning(JobRow.event_count)
        .execution_options(synchronize_session=False)
    )
    last = session.scalars(raised).one()
    at = time.time()
    session.execute(
        insert(JobEventRow),
        [
            {"job_id": job_id, "sequence": number, "at": at, "kind": kind, "data": dict(one)}
            for number, one in enumerate(data, last - len(data) + 1)
        ],
    )


def read_after(session: Session, job_id: str, sequence: int, limit: int) -> list[JobEvent]:
    """At most ``limit`` events of a job with numbers above ``sequence``, in their order."""
    wanted = (
        select(JobEventRow)
        .where(JobEventRow.job_id == job_id, JobEventRow.sequence > sequence)
        .order_by(JobEventRow.sequence)
        .limit(limit)
    )
    return [JobEvent(row.sequence, row.at, row.kind, row.data) for row in session.scalars(wanted)]
