"""Imports files of schedules, within the caller's quotas and never without a row in the audit.

A large file is stored in several transactions; each updates one row of the audit with the progress.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

from db.access.audit import amend_entry
from db.access.usage import IMPORT_ACTION
from db.exchange import Imported, import_schedules
from service.auth.audit import record
from service.auth.quotas import check_upload
from tuner.jobs.tuning import installed_toolchains

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from db.sql_store import SqlStore
    from service.auth import Caller


def take_over(
    store: SqlStore,
    file: IO[bytes],
    *,
    any_toolchain: bool,
    caller: Caller | None = None,
    request: HTTPConnection | None = None,
) -> Imported:
    """Imports ``file``, which ``caller`` sent by ``request`` or, without both, a command on this
    machine opened. Errors as of ``import_schedules``; ``HttpError`` beyond the caller's quota.
    Blocks."""
    size_bytes = file.seek(0, 2)
    file.seek(0)
    if caller is not None:
        check_upload(store, caller, size_bytes)
    number: int | None = None

    def note(so_far: Imported) -> None:
        nonlocal number
        detail: dict[str, Any] = {**asdict(so_far), "bytes": size_bytes}
        detail["any_toolchain"] = any_toolchain
        if number is not None:
            amend_entry(store, number, detail)
            return
        if caller is not None:  # others may have sent files since the check above
            check_upload(store, caller, size_bytes)
        number = record(store, caller, IMPORT_ACTION, "", detail, request)

    return import_schedules(
        store, file, installed=installed_toolchains(), any_toolchain=any_toolchain, note=note
    )
