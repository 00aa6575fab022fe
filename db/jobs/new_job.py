"""New jobs and batches, and the answers that requests for them got."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, exists, insert, select
from sqlalchemy.orm import Session

from db import catalogue
from db.jobs import events as job_events
from db.jobs.ids import new_job_id
from db.models import BatchRow, JobRow, ProblemRow, SpaceRow, ToolchainRow
from db.records import batch_values, option_values
from db.service_models import IdempotencyRow
from db.statements import table_of, together
from tuner.identity import digest_of
from tuner.records.batch import Batch, BatchPlan, NewJob, made_batch
from tuner.records.trial import Job, JobSpec, JobState, Submission
from tuner.space import Space

REMEMBERED_S = 24 * 3600.0
"""How long a key names the request it came with."""


def insert_job(
    session: Session,
    spec: JobSpec,
    space: Space,
    toolchain: Mapping[str, str],
    submission: Submission,
) -> Job:
    """Stores a job in state ``queued``."""
    now = time.time()
    problem = spec.problem
    named = {
        "space": space.digest,
        "problem": problem.digest,
        "toolchain": digest_of(dict(toolchain)),
    }
    job_id, known = _unused_id(session, now, named)
    if known.space is None:
        catalogue.keep_space(session, space)
    values = {
        "id": job_id,
        "problem_id": known.problem or catalogue.problem_id(session, problem),
        "space_digest": space.digest,
        "toolchain_id": known.toolchain or catalogue.toolchain_id(session, toolchain),
        "state": JobState.QUEUED,
        "cutoff_factor": spec.cutoff_factor,
        **option_values(spec),
        "created_at": now,
        "event_count": 1,
        "submitted_by": submission.user,
        "priority": submission.priority,
        "batch_id": submission.batch,
        "request_id": submission.request_id,
        "tenant": submission.owner,
        "audience": submission.audience,
        "kernel_label": submission.kernel_label,
    }
    connection = session.connection()
    with together(connection):
        catalogue.note_use(connection, values["toolchain_id"])
        connection.execute(_NEW_JOB, values)
        job_events.add(connection, job_id, [job_events.of_state(JobState.QUEUED)])
    return Job(job_id, spec, JobState.QUEUED, toolchain, space.digest, now, submission=submission)


_NEW_JOB = insert(table_of(JobRow)).inline()


def _unused_id(session: Session, now_s: float, named: Mapping[str, str]) -> tuple[str, Any]:
    """An id that neither a job nor a batch has, and the rows there are of what a job refers to, by
    their digests."""
    while True:
        made = new_job_id(now_s)
        known = session.connection().execute(_KNOWN, {"made": made, **named}).one()
        if not known.taken:
            return made, known


_KNOWN = select(
    (
        exists().where(JobRow.id == bindparam("made"))
        | exists().where(BatchRow.id == bindparam("made"))
    ).label("taken"),
    select(SpaceRow.digest)
    .where(SpaceRow.digest == bindparam("space"))
    .scalar_subquery()
    .label("space"),
    select(ProblemRow.id)
    .where(ProblemRow.digest == bindparam("problem"))
    .scalar_subquery()
    .label("problem"),
    select(ToolchainRow.id)
    .where(ToolchainRow.digest == bindparam("toolchain"))
    .scalar_subquery()
    .label("toolchain"),
)


def insert_batch(session: Session, plan: BatchPlan, jobs: Sequence[NewJob]) -> Batch:
    """Stores ``jobs`` in state ``queued``, and the batch they are."""
    nothing = dict.fromkeys(("space", "problem", "toolchain"), "")
    batch_id, _ = _unused_id(session, time.time(), nothing)

    def make(one: NewJob) -> Job:
        return insert_job(session, one.spec, one.space, one.toolchain, one.submission)

    batch = made_batch(batch_id, plan, jobs, make)
    session.execute(insert(BatchRow).values(batch_values(batch)))
    return batch


@dataclass(frozen=True)
class RequestKey:
    """Names a request of one token: sent again, it means the same."""

    token_id: str
    key: str
    request_digest: str


@dataclass(frozen=True)
class KeptAnswer:
    """The answer to a request. ``same_request`` is false if its key came with another one."""

    answer: Mapping[str, Any]
    same_request: bool


def kept_answer(session: Session, key: RequestKey) -> KeptAnswer | None:
    """The answer that the request with this key got; ``None`` without a recent one."""
    row = session.get(IdempotencyRow, (key.token_id, key.key))
    if row is None or row.created_at < time.time() - REMEMBERED_S:
        return None
    return KeptAnswer(row.answer, row.request_digest == key.request_digest)


def answer_once(
    session: Session, key: RequestKey, status: int, make: Callable[[], Mapping[str, Any]]
) -> KeptAnswer | None:
    """Keeps what ``make`` gives as the answer to the request, unless it got one before.

    Returns the earlier answer, without calling ``make``, or ``None``. Of requests that come at
    the same time one makes the answer; the others wait here until it is stored, or given up.
    """
    too_old = IdempotencyRow.created_at < time.time() - REMEMBERED_S
    session.execute(delete(IdempotencyRow).where(too_old))
    values = {
        "token_id": key.token_id,
        "key": key.key,
        "request_digest": key.request_digest,
        "status": status,
        "answer": {},
        "created_at": time.time(),
    }
    names = ("token_id", "key")
    if not catalogue.insert_unless_there(session, IdempotencyRow, values, names):
        return kept_answer(session, key)
    row = session.get_one(IdempotencyRow, (key.token_id, key.key))
    row.answer = dict(make())
    return None
