"""Rows that jobs and schedules refer to: named by a digest, stored once, never changed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Connection, CursorResult, Delete, Insert, Update, bindparam, select, update
from sqlalchemy.orm import Session

from db.base import Base
from db.models import ProblemRow, SpaceRow, TargetRow, ToolchainRow, WorkloadRow
from db.statements import insert_or_skip, table_of
from tuner.identity import digest_of
from tuner.problem.target import Target
from tuner.problem.workload import Workload
from tuner.records.candidate import Problem
from tuner.space import Space


def insert_unless_there(
    session: Session,
    model: type[Base],
    values: Mapping[str, Any],
    keys: Sequence[str] = ("digest",),
) -> bool:
    """Inserts a row unless one with the same ``keys`` exists, or another transaction inserts it at
    the same time; returns whether it did."""
    connection = session.connection()
    statement = insert_or_skip(connection.dialect.name, model, tuple(keys))
    # A closed cursor of psycopg has forgotten its count: SQLAlchemy reads it before.
    options = {"preserve_rowcount": True}
    return connection.execute(statement, values, execution_options=options).rowcount == 1


def rows_changed(session: Session, statement: Insert | Update | Delete) -> int:
    """Executes ``statement`` and counts the rows it inserted, updated or deleted."""
    options: dict[str, Any] = {"synchronize_session": False}
    if isinstance(statement, Insert):
        # Otherwise SQLAlchemy returns -1 for some inserts on PostgreSQL.
        options = {"preserve_rowcount": True}
    result = session.execute(statement, execution_options=options)
    return cast("CursorResult[Any]", result).rowcount


def _row_id(
    session: Session,
    model: type[WorkloadRow | TargetRow | ProblemRow | ToolchainRow],
    digest: str,
    values: Mapping[str, Any],
) -> int:
    """The id of the row with ``digest``, made from ``values`` if it is new."""
    wanted = select(model.id).where(model.digest == digest)
    found = session.scalar(wanted)
    if found is None:
        insert_unless_there(session, model, {"digest": digest, **values})
        found = session.scalars(wanted).one()
    return found


def workload_id(session: Session, workload: Workload) -> int:
    """The row of ``workload``."""
    return _row_id(session, WorkloadRow, workload.digest, workload.as_dict())


def target_id(session: Session, target: Target) -> int:
    """The row of ``target``."""
    figures = target.as_dict()
    values = {"name": target.name, "arch": target.arch, "soc": target.soc, "figures": figures}
    return _row_id(session, TargetRow, digest_of(figures), values)


def problem_id(session: Session, problem: Problem) -> int:
    """The row of ``problem``."""
    found = session.scalar(select(ProblemRow.id).where(ProblemRow.digest == problem.digest))
    if found is not None:
        return found
    values = {
        "workload_id": workload_id(session, problem.workload),
        "target_id": target_id(session, problem.target),
        "contract": problem.contract,
    }
    return _row_id(session, ProblemRow, problem.digest, values)


def toolchain_id(
    session: Session, fingerprint: Mapping[str, str], used_at: float | None = None
) -> int:
    """The row of a toolchain. A new one counts as used at ``used_at``, by default now."""
    at = time.time() if used_at is None else used_at
    values = {"fingerprint": dict(fingerprint), "last_used_at": at}
    return _row_id(session, ToolchainRow, digest_of(dict(fingerprint)), values)


def used_toolchain_id(session: Session, fingerprint: Mapping[str, str]) -> int:
    """The row of a toolchain, which counts as used now: the current one."""
    found = toolchain_id(session, fingerprint)
    note_use(session.connection(), found)
    return found


def note_use(connection: Connection, toolchain: int) -> None:
    """The toolchain with this id counts as used now."""
    connection.execute(_USED, {"used": toolchain, "last_used_at": time.time()})


_USED = update(table_of(ToolchainRow)).where(ToolchainRow.id == bindparam("used"))


def keep_space(session: Session, space: Space) -> None:
    """Stores ``space`` under its digest."""
    if session.scalar(select(SpaceRow.digest).where(SpaceRow.digest == space.digest)) is None:
        values = {"digest": space.digest, "kernel": space.kernel, "document": space.as_dict()}
        insert_unless_there(session, SpaceRow, values)
