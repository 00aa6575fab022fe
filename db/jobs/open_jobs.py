"""Whether somebody asked for the same before."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import or_, select

from db.models import JobRow, ProblemRow
from db.records import job_record
from db.sql_store import SqlStore
from tuner.records.candidate import CacheState, Problem
from tuner.records.trial import Job, JobState


def open_job(
    store: SqlStore,
    problem: Problem,
    cache: CacheState,
    kinds: Sequence[str] = (),
    owner: str = "",
) -> Job | None:
    """The oldest job for ``problem`` that has not ended, if there is one.

    With ``kinds`` of devices, one that measures on devices of such a kind or promotes to them: a
    search on the model never answers who asks for more. Nor does a private job, but ``owner``'s.
    """
    wanted = (
        select(JobRow)
        .join(ProblemRow, JobRow.problem_id == ProblemRow.id)
        .where(ProblemRow.digest == problem.digest, JobRow.cache == cache)
        .where(JobRow.audience.in_(("", owner)))
        .where(JobRow.state.in_((JobState.QUEUED, JobState.RUNNING)), JobRow.paused.is_(False))
        .order_by(JobRow.created_at)
        .limit(1)
    )
    if kinds:
        above = (JobRow.promote_to, JobRow.device_tags, JobRow.measurer)
        wanted = wanted.where(or_(*(column.in_(kinds) for column in above)))
    with store.reading() as session:
        row = session.scalar(wanted)
        return None if row is None else job_record(row)
