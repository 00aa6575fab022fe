"""Which trial of a job is its best, in SQL: the least of what the job prefers
(:meth:`tuner.records.trial.JobSpec.ranked`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session

from db.models import JobRow, MeasurementRow, TrialRow
from tuner.records.candidate import Cycles

RANKED: ColumnElement[int] = case(
    (
        JobRow.prefer == "robust",
        func.coalesce(MeasurementRow.expected_cycles, MeasurementRow.cycles),
    ),
    else_=MeasurementRow.cycles,
)
"""Of a measured trial, or of a promotion; the query joins the job."""


class Leader(NamedTuple):
    """The best trial of a job from one origin: its figure by what the job prefers, its ``cycles``
    and their range. Leaders in order are best first."""

    ranked: int
    number: int
    cycles: int
    lowest_cycles: int | None
    highest_cycles: int | None
    origin: str

    @property
    def taken(self) -> Cycles:
        """Its cycles, with their range."""
        return Cycles(self.cycles, self.lowest_cycles, self.highest_cycles)


def leaders(session: Session, of_jobs: ColumnElement[bool]) -> dict[str, list[Leader]]:
    """Of each job with a measured trial, by its id."""
    place = func.row_number().over(
        partition_by=(TrialRow.job_id, TrialRow.origin), order_by=(RANKED, TrialRow.number)
    )
    each = (
        select(
            TrialRow.job_id,
            RANKED.label("ranked"),
            TrialRow.number,
            MeasurementRow.cycles,
            MeasurementRow.lowest_cycles,
            MeasurementRow.highest_cycles,
            TrialRow.origin,
            place.label("place"),
        )
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .join(MeasurementRow, TrialRow.measurement_id == MeasurementRow.id)
        .where(of_jobs)
        .subquery()
    )
    found: dict[str, list[Leader]] = {}
    for job_id, *figures, _ in session.execute(select(each).where(each.c.place == 1)):
        found.setdefault(job_id, []).append(Leader(*figures))
    return found


def best_of(leaders: Iterable[Leader]) -> Leader | None:
    """The best of them, if any."""
    return min(leaders, key=lambda one: (one.ranked, one.number), default=None)


def best_cycles(leaders: Iterable[Leader]) -> Cycles | None:
    """The cycles of the best of them, with their range."""
    best = best_of(leaders)
    return best and best.taken


def least_cycles(leaders: Iterable[Leader]) -> int | None:
    """The cycles of the best of them."""
    best = best_of(leaders)
    return None if best is None else best.cycles
