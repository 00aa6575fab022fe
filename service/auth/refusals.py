"""Refused authentication in the audit, few rows however many refusals there are."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.request_ids import current_request_id
from tuner.errors import HvxtuneError

if TYPE_CHECKING:
    from db.sql_store import SqlStore

WINDOW_S = 600.0
MOST_ROWS = 100
"""In a window, over all addresses; one row for each address, token and reason."""

_log = logging.getLogger("hvxtune.service")


@dataclass(frozen=True)
class _Refusal:
    client: str
    token_id: str | None
    reason: str


class Refusals:
    """Writes them. Safe from several threads."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._window_ends = 0.0
        self._written: set[_Refusal] = set()
        self._left_out = 0

    def note(self, client: str, path: str, token_id: str | None, reason: str) -> None:
        """One request was refused. The first of its kind in a window gets a row; the first row of
        a window says how many of the one before got none. Blocks when it writes, and does not
        fail if the database does: the refusal itself is the answer."""
        left_out = self._counted(_Refusal(client, token_id, reason))
        if left_out is None:
            return
        from db.access.audit import add_entry

        detail = {"reason": reason, **({"left_out_before": left_out} if left_out else {})}
        try:
            add_entry(
                self._store,
                token_id=token_id,
                action="auth.refuse",
                subject=path[:200],
                detail=detail,
                client=client,
                request_id=current_request_id(),
            )
        except HvxtuneError as error:
            _log.warning("a refused authentication (%s) is not in the audit: %s", reason, error)

    def _counted(self, refusal: _Refusal) -> int | None:
        """How many got no row before this one gets its; ``None`` if this one gets none."""
        with self._lock:
            now = time.monotonic()
            if now >= self._window_ends:
                self._window_ends = now + WINDOW_S
                self._written.clear()
            if refusal in self._written or len(self._written) >= MOST_ROWS:
                self._left_out += 1
                return None
            self._written.add(refusal)
            left_out, self._left_out = self._left_out, 0
            return left_out
