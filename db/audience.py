"""Visibility: who sees which rows of a store.

Jobs, batches, uploads and schedules have a ``tenant``, their owner, and an ``audience``:
empty for everybody, else the tenant alone. Parts of a job (trials, events, promotions, comment,
tags) are visible with the job. A store that is *seen by* somebody
(:meth:`db.sql_store.SqlStore.seen_by`) finds no other rows: the condition is added to every
statement of its sessions, so that no query can forget it. Raw SQL is not covered:
:mod:`db.schedules.serving` names the audience itself."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, event, exists, select
from sqlalchemy.orm import ORMExecuteState, Session, with_loader_criteria
from sqlalchemy.sql.base import ExecutableOption

from db.models import (
    AnnotationRow,
    BatchRow,
    JobEventRow,
    JobRow,
    JobTagRow,
    PromotionRow,
    ScheduleRow,
    TrialRow,
)
from db.service_models import PipelineRow

EVERYBODYS: Final[dict[str, Any]] = {"hvxtune_everybodys": True}
"""Execution options of a statement over everybody's rows, to count or compare with them."""

_VIEWER: Final = "hvxtune_viewer"
_OWNED: Final = (JobRow, BatchRow, ScheduleRow, PipelineRow)
_OF_A_JOB: Final = (TrialRow, PromotionRow, JobEventRow, AnnotationRow, JobTagRow)


class Viewer(NamedTuple):
    """Whoever asks for a thing by name: a tenant, whose own come first. What others keep private
    exists only for those who see all."""

    tenant: str
    sees_all: bool = False


def audience_of(tenant: str, *, private: bool) -> str:
    """The audience of a row of ``tenant``; rows without a tenant are everybody's."""
    return tenant if private else ""


def session_info(viewer: str | None) -> dict[str, Any]:
    """The ``info`` of a session that is limited to what the tenant ``viewer`` may see; ``None``
    sees all."""
    return {_VIEWER: viewer}


_A_JOB: Final = re.compile(r"\bjob ([0-9a-z]{10})\b")


def as_seen(session: Session, text: str) -> str:
    """``text`` about a device without the ids of jobs that the viewer may not know of."""
    named = [] if session.info.get(_VIEWER) is None else _A_JOB.findall(text)
    if not named:
        return text
    seen = set(session.scalars(select(JobRow.id).where(JobRow.id.in_(named))))
    return _A_JOB.sub(lambda found: found[0] if found[1] in seen else "a job", text)


@event.listens_for(Session, "do_orm_execute")
def _hide(state: ORMExecuteState) -> None:
    viewer = state.session.info.get(_VIEWER)
    if viewer is None or state.execution_options.get(*EVERYBODYS):
        return
    if state.is_select or state.is_update or state.is_delete:
        state.statement = state.statement.options(*_criteria(viewer))


@lru_cache(maxsize=1024)
def _criteria(viewer: str) -> tuple[ExecutableOption, ...]:
    def seen(row: Any) -> ColumnElement[bool]:
        return row.audience.in_(("", viewer))  # type: ignore[no-any-return]

    # An alias of the bare table, so that the criteria for jobs do not apply to it.
    jobs = JobRow.__table__.alias("hidden_jobs")

    def of_seen_job(row: Any) -> ColumnElement[bool]:
        hidden = (jobs.c.id == row.job_id) & jobs.c.audience.not_in(("", viewer))
        return ~exists().where(hidden).correlate_except(jobs)

    return (
        *(with_loader_criteria(row, seen(row), include_aliases=True) for row in _OWNED),
        *(with_loader_criteria(row, of_seen_job(row), include_aliases=True) for row in _OF_A_JOB),
    )
