"""Quarantined schedules are kept along with the one served in their place."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_KEY = ("problem_id", "fidelity", "toolchain_id")
_UNIQUE = "uq_schedules_problem_id_fidelity_toolchain_id"


def upgrade() -> None:
    """Only schedules that are not quarantined are unique by problem, fidelity and toolchain.

    SQLite cannot drop a constraint, so the table is recreated there, by its own statement without
    it. Nothing refers to it.
    """
    if op.get_bind().dialect.name == "sqlite":
        _make_anew()
    else:
        op.drop_constraint(_UNIQUE, "schedules", type_="unique")
    op.create_index(
        "ux_schedules_handed_out",
        "schedules",
        _KEY,
        unique=True,
        sqlite_where=sa.text("quarantined_at IS NULL"),
        postgresql_where=sa.text("quarantined_at IS NULL"),
    )
    op.create_index(op.f("ix_schedules_problem_id"), "schedules", ["problem_id"])


def _make_anew() -> None:
    connection = op.get_bind()
    found = sa.text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'schedules'")
    made: str = connection.execute(found).scalar_one()
    head, constraint = (
        "CREATE TABLE schedules (",
        f"CONSTRAINT {_UNIQUE} UNIQUE ({', '.join(_KEY)}),",
    )
    if not made.startswith(head) or constraint not in made:
        raise RuntimeError(f"the table of schedules is not what migration 0010 left: {made}")
    anew = made.replace(head, "CREATE TABLE schedules_anew (").replace(constraint, "")
    op.execute(anew)
    op.execute("INSERT INTO schedules_anew SELECT * FROM schedules")
    op.drop_table("schedules")
    op.rename_table("schedules_anew", "schedules")
    op.create_index(op.f("ix_schedules_public_id"), "schedules", ["public_id"])
