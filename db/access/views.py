"""Saved views: filters of the list of jobs under names that a user gave them."""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import delete, func, select, update

from db.audience import user_of
from db.catalogue import insert_unless_there, rows_changed
from db.database import Database
from db.service_models import VIEW_NAME_LENGTH, SavedViewRow
from tuner.errors import UserError

MOST_VIEWS: Final = 50


def saved_views(database: Database) -> dict[str, str]:
    """The queries of the views that the user saved, by their names, in that order."""
    with database.reading() as session:
        own = select(SavedViewRow).where(SavedViewRow.saved_by == user_of(session))
        return dict(sorted((row.name, row.query) for row in session.scalars(own)))


def save_view(database: Database, name: str, query: str) -> None:
    """Saves ``query`` as ``name``, in place of an earlier view of that name. ``UserError`` for a
    name that will not do, and beyond :data:`MOST_VIEWS`."""
    if not re.fullmatch(rf"[^\x00-\x1f\x7f-\x9f]{{1,{VIEW_NAME_LENGTH}}}", name):
        raise UserError(
            f"a view called '{name[:VIEW_NAME_LENGTH]}'",
            accepted=f"1 to {VIEW_NAME_LENGTH} characters, no control characters",
        )
    with database.writing() as session:
        key = {"saved_by": user_of(session), "name": name}
        insert_unless_there(session, SavedViewRow, {**key, "query": query}, list(key))
        rows_changed(session, update(SavedViewRow).filter_by(**key).values(query=query))
        count = select(func.count()).select_from(SavedViewRow)
        own = count.where(SavedViewRow.saved_by == key["saved_by"])
        if (session.scalar(own) or 0) > MOST_VIEWS:
            raise UserError(
                f"you have {MOST_VIEWS} saved views",
                accepted=f"at most {MOST_VIEWS}",
                next_step="delete one first",
            )


def delete_view(database: Database, name: str) -> None:
    """Deletes the user's view called ``name``, if there is one."""
    with database.writing() as session:
        own = delete(SavedViewRow).filter_by(saved_by=user_of(session), name=name)
        rows_changed(session, own)
