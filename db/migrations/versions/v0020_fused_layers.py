"""Networks record which layers are done in the call of another."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

_BATCHES = sa.table("batches", sa.column("id", sa.String()), sa.column("document", sa.JSON()))


def upgrade() -> None:
    """Adds to each recorded layer that it is a call of its own, as all were."""
    connection = op.get_bind()
    for batch, document in connection.execute(sa.select(_BATCHES)).all():
        layers = [{**one, "within": ""} for one in document["layers"]]
        changed = sa.update(_BATCHES).where(_BATCHES.c.id == batch)
        connection.execute(changed.values(document={**document, "layers": layers}))


def downgrade() -> None:
    """Layers done in the call of another one have no kernel of their own any more."""
    connection = op.get_bind()
    for batch, document in connection.execute(sa.select(_BATCHES)).all():
        layers = [{k: v for k, v in one.items() if k != "within"} for one in document["layers"]]
        changed = sa.update(_BATCHES).where(_BATCHES.c.id == batch)
        connection.execute(changed.values(document={**document, "layers": layers}))
