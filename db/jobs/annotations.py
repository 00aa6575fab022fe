"""Annotations of jobs: the comment and tags by which people find them again.

They change after submission, at any time, in tables of their own: an edit neither waits for a
conductor that commits a trial nor holds one up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from db.catalogue import insert_unless_there, rows_changed
from db.database import Database
from db.models import AnnotationRow, JobRow, JobTagRow
from tuner.errors import UserError
from tuner.records.annotation import MOST_TAGS, Annotation, checked_comment, checked_tag


def annotations_of(session: Session, job_ids: Collection[str]) -> Mapping[str, Annotation]:
    """The annotations of the jobs with these whole ids, in one query however many they are."""
    wanted = (
        select(JobRow.id, AnnotationRow.comment, JobTagRow.tag)
        .outerjoin(AnnotationRow, AnnotationRow.job_id == JobRow.id)
        .outerjoin(JobTagRow, JobTagRow.job_id == JobRow.id)
        .where(JobRow.id.in_(job_ids))
    )
    found: dict[str, Annotation] = {}
    for job_id, comment, tag in session.execute(wanted):
        tags = {*found.get(job_id, Annotation()).tags, *([] if tag is None else [tag])}
        found[job_id] = Annotation(comment or "", tuple(sorted(tags)))
    return found


def has_tag(job_id: InstrumentedAttribute[str], tag: str) -> ColumnElement[bool]:
    """The condition that the job has ``tag``."""
    return job_id.in_(select(JobTagRow.job_id).where(JobTagRow.tag == tag))


def tags_in_use(database: Database) -> list[str]:
    """All tags of the jobs that can be seen."""
    with database.reading() as session:
        return sorted(session.scalars(select(JobTagRow.tag).distinct()))


def annotate(
    database: Database,
    job_id: str,
    *,
    comment: str | None = None,
    add_tags: Iterable[str] = (),
    remove_tags: Iterable[str] = (),
) -> None:
    """Changes what is given of the job with this whole id; tags are removed before others are
    added. ``UserError``, and no change, for what is not a comment or a tag, and for too many tags.
    """
    text = None if comment is None else checked_comment(comment)
    added, removed = ([checked_tag(tag) for tag in tags] for tags in (add_tags, remove_tags))
    own = JobTagRow.job_id == job_id
    with database.writing() as session:
        insert_unless_there(session, AnnotationRow, {"job_id": job_id, "comment": ""}, ["job_id"])
        # Edits of one job queue here, so that together they keep to the limit.
        row = session.get_one(AnnotationRow, job_id, populate_existing=True, with_for_update=True)
        if text is not None:
            row.comment = text
        rows_changed(session, delete(JobTagRow).where(own, JobTagRow.tag.in_(removed)))
        for tag in added:
            key = {"job_id": job_id, "tag": tag}
            insert_unless_there(session, JobTagRow, key, list(key))
        count = session.scalar(select(func.count()).select_from(JobTagRow).where(own)) or 0
        if added and count > MOST_TAGS:
            raise UserError(
                f"job {job_id} would have {count} tags",
                accepted=f"at most {MOST_TAGS}",
                next_step="remove some",
            )
