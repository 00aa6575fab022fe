"""What routes and commands leave in the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from service.auth.local_token import local_user
from service.auth.token_text import redact, redact_all
from service.request_ids import current_request_id

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from db.access.audit import AuditEntry
    from db.sql_store import SqlStore
    from service.auth.caller import Caller


def record(
    store: SqlStore,
    caller: Caller | None,
    action: str,
    subject: str,
    detail: Mapping[str, Any] | None = None,
    request: HTTPConnection | None = None,
) -> int:
    """Writes that ``caller`` did something, and gives the number of the entry. Blocks.

    To be called in one ``store.transaction()`` with the change: then there is never one without
    the other.

    ``action`` is the kind of thing and a verb, such as ``job.submit``; ``subject`` the id of what
    was changed; ``detail`` a small JSON object. Without a ``request`` it was done by a command on
    the service's machine. Texts lose any token that is in them.
    """
    from db.access.audit import add_entry

    return add_entry(
        store,
        token_id=None if caller is None else caller.token_id,
        action=action,
        subject=redact(subject),
        detail=redact_all(detail or {}),
        client=f"command of {local_user()}" if request is None else client_of(request),
        request_id="" if request is None else current_request_id(),
    )


def client_of(request: HTTPConnection) -> str:
    """The address a request came from."""
    return request.client.host if request.client else "unknown"


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
