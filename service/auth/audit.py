"""The audit entries of routes, commands and refused authentications."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.auth.caller import Caller, client_of
from service.auth.tokens import local_user
from service.request_ids import current_request_id
from service.token_text import redact, redact_all
from tuner.errors import HvxtuneError

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from db.access.audit import AuditEntry
    from db.sql_store import SqlStore


def record(
    store: SqlStore,
    caller: Caller | None,
    action: str,
    subject: str,
    detail: Mapping[str, Any] | None = None,
    request: HTTPConnection | None = None,
) -> int:
    """Writes that ``caller`` did something, and returns the number of the entry. Blocks.

    Call it in one ``store.transaction()`` with the change: then neither exists without the other.

    ``action`` is the kind of thing and a verb, such as ``job.submit``; ``subject`` the id of what
    was changed; ``detail`` a small JSON object. Without a ``request`` it was a command on the
    service's machine. Tokens are redacted from all texts.
    """
    from db.access.audit import add_entry

    token = None if caller is None else caller.token_id or None
    sent = None if caller is not None and token is None else request
    return add_entry(
        store,
        token_id=token,
        action=action,
        subject=redact(subject),
        detail=redact_all(detail or {}),
        client=f"command of {local_user()}" if sent is None else client_of(sent),
        request_id="" if sent is None else current_request_id(),
    )


def entry_json(entry: AuditEntry) -> dict[str, Any]:
    """An entry as commands and routes show it."""
    return {
        "number": entry.number,
        "at": entry.at,
        "token": entry.token_id,
        "action": entry.action,
        "subject": entry.subject,
        "detail": dict(entry.detail),
        "client": entry.client,
        "request_id": entry.request_id,
    }


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
    """Writes refused authentications: few rows, however many there are. Thread-safe."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._window_ends = 0.0
        self._written: set[_Refusal] = set()
        self._left_out = 0

    def note(self, client: str, path: str, token_id: str | None, reason: str) -> None:
        """Notes one refused request. The first of its kind in a window gets a row; the first row
        of a window says how many in the one before got none. Blocks when it writes, and does not
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
