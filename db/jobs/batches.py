"""The progress of batches, counted by the database, and lists in which each is one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from sqlalchemy import case, func, select, tuple_, update
from sqlalchemy.orm import Session, aliased

from db.database import Database
from db.jobs.claims import is_held
from db.jobs.finding import find_batch
from db.jobs.queries import JobFilters, JobOverview, filtered, overviews_of
from db.jobs.trials import UNSEARCHED
from db.leaders import best_cycles, leaders, least_cycles
from db.models import BatchRow, JobRow, TrialRow
from db.records import batch_record, problem_record, reading
from tuner.errors import UserError
from tuner.jobs.batch_progress import BatchProgress, BatchTable, MemberProgress, table_of
from tuner.records.batch import Batch
from tuner.records.candidate import Problem
from tuner.records.network_plan import NetworkPlan, plan_from_document
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState

Listed = JobOverview | BatchProgress
Place = tuple[float, str]
"""When a job was made, and its id."""


def batch_progress(database: Database, batch_id: str) -> BatchProgress:
    """The progress of the batch with this id, or start of one; ``UserError`` without it."""
    with database.reading() as session:
        batch = find_batch(session, batch_id)
        return _progress(session, [batch])[batch.id]


def batch_table(database: Database, batch_id: str) -> BatchTable:
    """The same, layer by layer."""
    with database.reading() as session:
        batch = find_batch(session, batch_id)
        progress = _progress(session, [batch])[batch.id]
        jobs = session.scalars(select(JobRow).where(JobRow.batch_id == batch.id))
        problems = {row.id: problem_record(row.problem) for row in jobs}
    return table_of(progress, problems)


def batch_problems(database: Database, batch_id: str) -> list[Problem]:
    """The problems of its jobs, in the batch's order."""
    with database.reading() as session:
        batch = find_batch(session, batch_id)
        rows = session.scalars(select(JobRow).where(JobRow.batch_id == batch.id))
        found = {row.id: problem_record(row.problem) for row in rows}
    return [found[one.job] for one in batch.members if one.job in found]


def id_of_batch(database: Database, given: str) -> str:
    """The id of the batch that ``given`` names: by its id, the start of one, or the name of a
    network or set, which means its newest. ``UserError`` without one."""
    newest = select(BatchRow.id).where(BatchRow.name == given, BatchRow.name != "")
    newest = newest.order_by(BatchRow.created_at.desc(), BatchRow.id.desc()).limit(1)
    with database.reading() as session:
        try:
            return find_batch(session, given).id
        except UserError:
            if (named := session.scalar(newest)) is not None:
                return named
            raise


def plan_of(database: Database, batch_id: str) -> NetworkPlan | None:
    """The plan kept with the batch of this whole id; ``None`` without one."""
    with database.reading() as session:
        kept = session.scalar(select(BatchRow.plan).where(BatchRow.id == batch_id))
        if kept is None:
            return None
        with reading(f"the plan of batch {batch_id}"):
            return plan_from_document(kept)


def keep_plan(database: Database, batch: Batch, plan: NetworkPlan) -> None:
    """Keeps ``plan`` with ``batch``, in place of an earlier one. ``UserError`` if it is not a plan
    for its layers."""
    if len(plan.layers) != len(batch.layers):
        raise UserError(
            f"a plan of {len(plan.layers)} layers for {batch.label}",
            accepted=f"one for each of its {len(batch.layers)} layers",
        )
    with database.writing() as session:
        changed = update(BatchRow).where(BatchRow.id == batch.id)
        session.execute(changed.values(plan=plan.document()))


def newest_networks(database: Database, limit: int) -> list[BatchProgress]:
    """The newest networks, each name once."""
    last = select(func.max(BatchRow.created_at)).where(BatchRow.kind == "network")
    newest = last.group_by(BatchRow.name)
    wanted = (
        select(BatchRow)
        .where(BatchRow.kind == "network", BatchRow.created_at.in_(newest))
        .order_by(BatchRow.created_at.desc())
        .limit(limit)
    )
    with database.reading() as session:
        return list(_progress(session, map(batch_record, session.scalars(wanted))).values())


def listed_page(
    database: Database, filters: JobFilters, before: Place | None, limit: int
) -> list[tuple[Place, Listed]]:
    """At most ``limit`` jobs, newest first, each batch in place of its newest job, older than the
    place ``before``; each with its place. A batch is listed if one of its jobs passes the filters,
    in the place of the newest that does."""
    newer = aliased(JobRow)
    newest_first = (JobRow.created_at.desc(), JobRow.id.desc())
    with database.reading() as session:
        covered = filtered(session, select(newer.id), filters, newer).where(
            newer.batch_id == JobRow.batch_id,
            tuple_(newer.created_at, newer.id) > tuple_(JobRow.created_at, JobRow.id),
        )
        wanted = filtered(session, select(JobRow), filters).where(
            ~covered.correlate(JobRow).exists()
        )
        if before is not None:
            wanted = wanted.where(tuple_(JobRow.created_at, JobRow.id) < before)
        rows = session.scalars(wanted.order_by(*newest_first).limit(limit)).all()
        alone = overviews_of(session, [row for row in rows if row.batch_id is None])
        jobs = {one.job.id: one for one in alone}
        ids = [row.batch_id for row in rows if row.batch_id is not None]
        batches = _progress(session, _batches(session, ids))
        return [
            (
                (row.created_at, row.id),
                jobs[row.id] if row.batch_id is None else batches[row.batch_id],
            )
            for row in rows
        ]


def _batches(session: Session, ids: Sequence[str]) -> list[Batch]:
    """The batches with these whole ids, in one query however many they are."""
    return [
        batch_record(row) for row in session.scalars(select(BatchRow).where(BatchRow.id.in_(ids)))
    ]


def _progress(session: Session, batches: Iterable[Batch]) -> Mapping[str, BatchProgress]:
    """By id, in two queries however many they are."""
    asked = list(batches)
    ids = [batch.id for batch in asked]
    counts = (
        select(
            TrialRow.job_id,
            func.count(TrialRow.outcome),
            func.count(case((TrialRow.outcome == Outcome.OK, 1))),
            func.count(case((TrialRow.outcome.is_(None), 1))),
        )
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .where(JobRow.batch_id.in_(ids))
        .group_by(TrialRow.job_id)
    )
    counted = {row[0]: tuple(row[1:]) for row in session.execute(counts)}
    best = leaders(session, JobRow.batch_id.in_(ids))
    columns = (
        *(
            JobRow.id,
            JobRow.state,
            JobRow.paused,
            JobRow.spent_s,
            JobRow.note,
            JobRow.fencing_token,
        ),
        *(JobRow.owner_host, JobRow.owner_pid, JobRow.owner_started_at, JobRow.lease_expires_at),
    )
    jobs = {
        row.id: row for row in session.execute(select(*columns).where(JobRow.batch_id.in_(ids)))
    }

    def progress(batch: Batch) -> BatchProgress:
        members = []
        for member in batch.members:
            if (row := jobs.get(member.job)) is None:  # others may not see all of its jobs
                continue
            held = is_held(session, cast("JobRow", row))
            finished, ok, pending = counted.get(member.job, (0, 0, 0))
            of_job = best.get(member.job, [])
            members.append(
                MemberProgress(
                    member,
                    row.state,
                    paused=row.paused,
                    interrupted=row.state is JobState.RUNNING and not held,
                    finished=finished,
                    ok=ok,
                    pending=pending,
                    textbook_cycles=least_cycles(o for o in of_job if o.origin == "textbook"),
                    best=best_cycles(o for o in of_job if o.origin not in UNSEARCHED),
                    spent_s=row.spent_s,
                    note=row.note,
                )
            )
        return BatchProgress(batch, tuple(members))

    return {batch.id: progress(batch) for batch in asked}
