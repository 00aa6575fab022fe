"""Jobs and batches: made, and found again by what a person typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.database import Part
from db.jobs.events import JobEvent, read_after
from db.jobs.finding import find_batch, find_job
from db.jobs.new_job import insert_batch, insert_job
from db.jobs.queries import JobSummary, summaries_of
from db.models import JobRow, SpaceRow
from db.records import job_record, space_record
from tuner.records.batch import Batch, BatchPlan, NewJob
from tuner.records.trial import Job, JobSpec, Submission
from tuner.space import Space


class Jobs(Part):
    """The jobs of a database, and the batches that they are in."""

    def create(
        self,
        spec: JobSpec,
        space: Space,
        toolchain: Mapping[str, str],
        submission: Submission | None = None,
    ) -> Job:
        with self._database.writing() as session:
            return insert_job(session, spec, space, toolchain, submission or Submission())

    def create_batch(self, plan: BatchPlan, jobs: Sequence[NewJob]) -> Batch:
        with self._database.writing() as session:
            return insert_batch(session, plan, jobs)

    def find(self, job_id: str) -> Job:
        with self._database.reading() as session:
            return job_record(find_job(session, job_id))

    def batch(self, batch_id: str) -> Batch:
        with self._database.reading() as session:
            return find_batch(session, batch_id)

    def newest(self, limit: int = 50) -> list[Job]:
        with self._database.reading() as session:
            return [job_record(row) for row in _newest(session, limit)]

    def summary(self, job_id: str) -> JobSummary:
        """The job and its trials counted; ``UserError`` if there is no such job."""
        with self._database.reading() as session:
            return summaries_of(session, [find_job(session, job_id)])[0]

    def summaries(self, limit: int = 50) -> list[JobSummary]:
        """The newest jobs and their trials counted, newest first."""
        with self._database.reading() as session:
            return summaries_of(session, _newest(session, limit))

    def space(self, job_id: str) -> Space:
        """The space a job was created with; ``UserError`` if there is no such job."""
        with self._database.reading() as session:
            return space_record(session.get_one(SpaceRow, find_job(session, job_id).space_digest))

    def events(self, job_id: str, after: int = 0, limit: int = 500) -> list[JobEvent]:
        """Events of a job after number ``after``; ``UserError`` if it is unknown."""
        with self._database.reading() as session:
            return read_after(session, find_job(session, job_id).id, after, limit)


def _newest(session: Session, limit: int) -> Sequence[JobRow]:
    newest = select(JobRow).order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(limit)
    return session.scalars(newest).all()
