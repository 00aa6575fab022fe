"""Whether the service can do its work: proved by writing, and believed for some seconds."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future, ThreadPoolExecutor

from db.sql_store import SqlStore
from db.writability import prove_writable
from tuner.errors import StoreError

BELIEVED_S = 5.0
FAILURE_BELIEVED_S = 1.0
PATIENCE_S = 5.0
"""Beyond that the database is as good as not there."""


class Readiness:
    """Proves that the store can be written to, in a thread of its own: those of the routes may
    all be busy. ``app.state.readiness``."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "readiness")
        self._proof: Future[None] | None = None
        self._until = 0.0

    async def require(self) -> None:
        """``StoreError`` says what cannot be written."""
        if self._proof is None or (self._proof.done() and time.monotonic() >= self._until):
            self._proof = self._thread.submit(prove_writable, self._store)
            self._proof.add_done_callback(self._proved)
        try:
            proof = asyncio.shield(asyncio.wrap_future(self._proof))
            await asyncio.wait_for(proof, PATIENCE_S)
        except TimeoutError:
            raise StoreError(
                f"the database {self._store.place.name} has taken no write for {PATIENCE_S:g} s",
                next_step="see what else writes to it, or whether its disk hangs",
            ) from None

    def _proved(self, proof: Future[None]) -> None:
        failed = not proof.cancelled() and proof.exception() is not None
        self._until = time.monotonic() + (FAILURE_BELIEVED_S if failed else BELIEVED_S)
