"""Networks keep their graph and a plan: which layers a layer reads, and what runs where."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

_BATCHES = sa.table("batches", sa.column("id", sa.String()), sa.column("document", sa.JSON()))


def upgrade() -> None:
    """Adds a column, and to each recorded layer what older versions did not know: that it reads
    others, which stays empty."""
    op.add_column("batches", sa.Column("plan", sa.JSON(), nullable=True))
    connection = op.get_bind()
    for batch, document in connection.execute(sa.select(_BATCHES)).all():
        layers = [{**one, "reads": [], "output_bytes": 0} for one in document["layers"]]
        changed = sa.update(_BATCHES).where(_BATCHES.c.id == batch)
        connection.execute(changed.values(document={**document, "layers": layers}))
