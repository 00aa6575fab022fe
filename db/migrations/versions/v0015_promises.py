"""Workloads are named by their kernel's source, schedules are sealed, and measurements tell what of
their samples the harness took."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from db.schedules.first_sources import FIRST_SOURCES

revision = "0015"
down_revision = "0014"

_BATCH = 5000

_workloads = sa.table(
    "workloads",
    *(sa.column(name) for name in ("id", "digest", "kernel", "version")),
    sa.column("params", sa.JSON),
    sa.column("source"),
)
_targets = sa.table("targets", sa.column("id"), sa.column("digest"), sa.column("figures", sa.JSON))
_problems = sa.table(
    "problems", *(sa.column(n) for n in ("id", "digest", "workload_id", "target_id", "contract"))
)
_schedules = sa.table(
    "schedules",
    *(sa.column(name) for name in ("id", "problem_id", "config_digest", "generator")),
    *(sa.column(name) for name in ("symbol", "artifact_digest", "seal")),
)


def upgrade() -> None:
    """Rows of before are taken to be of the kernels' first known sources, and to be whole."""
    source = sa.Column("source", sa.String(64), server_default="", nullable=False)
    op.add_column("workloads", source)
    op.add_column("schedules", sa.Column("seal", sa.String(64), server_default="", nullable=False))
    op.add_column("measurements", sa.Column("overhead_cycles", sa.BigInteger(), nullable=True))
    _name_workloads()
    _name_problems()
    _seal()


def _name_workloads() -> None:
    def named(row: Any) -> dict[str, Any] | None:
        source = FIRST_SOURCES.get((row.kernel, row.version))
        if source is None:
            return None
        form = {"kernel": row.kernel, "version": row.version, "params": row.params}
        return {"digest": _digest({**form, "source": source}), "source": source}

    _update(_workloads, sa.select(_workloads), _workloads.c.id, named)


def _name_problems() -> None:
    rows = (
        sa.select(
            _problems.c.id,
            *(_problems.c.contract, _workloads.c.kernel, _workloads.c.version),
            *(_workloads.c.params, _workloads.c.source, _targets.c.figures),
        )
        .join(_workloads, _problems.c.workload_id == _workloads.c.id)
        .join(_targets, _problems.c.target_id == _targets.c.id)
        .where(_workloads.c.source != "")
    )

    def named(row: Any) -> dict[str, Any]:
        workload = {
            "kernel": row.kernel,
            "version": row.version,
            "params": row.params,
            "source": row.source,
        }
        parts = {"workload": workload, "contract": row.contract, "target": row.figures}
        return {"digest": _digest(parts)}

    _update(_problems, rows, _problems.c.id, named)


def _seal() -> None:
    """As ``db.schedules.validation`` does when a schedule is stored."""
    kept = ("id", "config_digest", "generator", "symbol", "artifact_digest")
    rows = (
        sa.select(
            *(_schedules.c[name] for name in kept),
            _problems.c.contract,
            *(_workloads.c.digest.label("workload"), _targets.c.digest.label("target")),
        )
        .join(_problems, _schedules.c.problem_id == _problems.c.id)
        .join(_workloads, _problems.c.workload_id == _workloads.c.id)
        .join(_targets, _problems.c.target_id == _targets.c.id)
    )

    def sealed(row: Any) -> dict[str, Any]:
        parts = (row.workload, row.target, row.contract, *(getattr(row, n) for n in kept[1:]))
        return {"seal": hashlib.sha256("\0".join(parts).encode()).hexdigest()}

    _update(_schedules, rows, _schedules.c.id, sealed)


def _update(table: Any, rows: Any, key: Any, values: Any) -> None:
    """Gives each of ``rows`` its ``values``, by ``key``; those without stay."""
    connection = op.get_bind()
    for batch in _batches(rows, key):
        changed = [{"row": row.id, **new} for row in batch if (new := values(row)) is not None]
        if changed:
            names = [name for name in changed[0] if name != "row"]
            connection.execute(
                sa.update(table)
                .where(key == sa.bindparam("row"))
                .values({name: sa.bindparam(name) for name in names}),
                changed,
            )


def _batches(rows: Any, key: Any) -> Iterator[Iterable[Any]]:
    last = 0
    while True:
        batch = op.get_bind().execute(rows.where(key > last).order_by(key).limit(_BATCH)).all()
        if not batch:
            return
        yield batch
        last = batch[-1].id


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
