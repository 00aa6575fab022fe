"""Comments and tags of jobs, for callers who may write them; REST and pages alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from db.jobs import annotations as stored
from db.sql_store import SqlStore
from service.auth.audit import record
from service.auth.caller import Caller
from service.job_requests import require_may_steer
from tuner.records.trial import Job

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


def annotate(
    store: SqlStore,
    caller: Caller,
    job: Job,
    request: HTTPConnection,
    *,
    comment: str | None,
    add_tags: Sequence[str],
    remove_tags: Sequence[str],
) -> None:
    """Changes comment and tags as :func:`db.jobs.annotations.annotate` does, and leaves that in the
    audit. 403 for anybody who may not: those who may not cancel it either."""
    require_may_steer(caller, job, "annotate")
    about = {"comment": comment is not None, "add": list(add_tags), "remove": list(remove_tags)}
    with store.transaction():
        stored.annotate(store, job.id, comment=comment, add_tags=add_tags, remove_tags=remove_tags)
        record(store, caller, "job.annotate", job.id, about, request)
