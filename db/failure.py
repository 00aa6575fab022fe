"""Turns the errors of SQLAlchemy, SQLite, PostgreSQL and the file system into ``StoreError``.

Each message names the file or server, the cause, and what to do next.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import (
    DBAPIError,
    NoSuchModuleError,
    SQLAlchemyError,
    TimeoutError,  # noqa: A004 - SQLAlchemy's own, for an exhausted pool
)

from db.place import URL_VARIABLE, Place
from tuner.errors import HvxtuneError, InternalError, StoreError, UserError
from tuner.paths import STATE_DIR_VARIABLE


class DamagedRowError(ValueError):
    """A stored row does not make a valid record, or does not match its digest."""


@contextmanager
def store_errors(place: Place) -> Iterator[None]:
    """Raises ``StoreError`` (or ``InternalError``, ``UserError``) for what goes wrong inside."""
    try:
        yield
    except HvxtuneError:
        raise
    except DamagedRowError as error:
        raise _corrupt(place, str(error)) from error
    except (SQLAlchemyError, sqlite3.Error, OSError, OverflowError, UnicodeDecodeError) as error:
        raise translated(error, place) from error


def translated(error: Exception, place: Place) -> HvxtuneError:
    """``error`` as an error of the database at ``place``."""
    cause: BaseException | None = error
    if isinstance(error, DBAPIError):
        cause = error.orig
    if isinstance(cause, sqlite3.Error):
        return _from_sqlite(cause, place)
    if isinstance(cause, UnicodeDecodeError):  # of an error's text, which quotes damaged bytes
        return _corrupt(place, f"it holds bytes that are not text: {cause.reason}")
    if isinstance(cause, OverflowError):
        return UserError("a number is too large to store", accepted="at most 63 bits")
    if isinstance(cause, OSError):
        return file_error(cause, place.path or Path(cause.filename or "."))
    if isinstance(error, TimeoutError):
        return StoreError(
            f"too many threads use the database {place.name} at once",
            next_step="run fewer of them",
        )
    if isinstance(error, DBAPIError) and cause is not None:
        return _from_server(cause, place)
    return InternalError(f"the database {place.name}: {_first_line(error)}")


def _from_sqlite(error: sqlite3.Error, place: Place) -> HvxtuneError:
    # Errors that the module raises itself, such as text that is not UTF-8, have no code.
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", "")
    text = _first_line(error)
    match None if code is None else code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return _full(place.name)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return _read_only(place.name)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return _locked(place)
        case sqlite3.SQLITE_CANTOPEN:
            return _cannot_open(place)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return _corrupt(place, text)
        case sqlite3.SQLITE_IOERR:
            return StoreError(
                f"the database {place.name} cannot be read or written ({text}, {name})",
                next_step="check the disk, its quota and the file-size limit (`ulimit -f`)",
            )
        case sqlite3.SQLITE_CONSTRAINT:
            return InternalError(f"the database {place.name} refused a record: {text}")
        case sqlite3.SQLITE_ERROR if "no such" in text:
            return _corrupt(place, text)
        case None if isinstance(error, sqlite3.OperationalError):
            return _corrupt(place, text)
    return InternalError(f"the database {place.name}: {text} {name}".rstrip())


def file_error(error: OSError, path: Path) -> StoreError:
    """``StoreError`` for a failed operation on the file or directory ``path``."""
    where = str(error.filename or path)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(where)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return _read_only(where)
    return StoreError(
        f"cannot use {where}: {error.strerror or _first_line(error)}",
        next_step=f"check the disk and its limits, or set {STATE_DIR_VARIABLE}",
    )


def _full(where: str) -> StoreError:
    return StoreError(
        f"no space left on the disk that holds {where}",
        next_step="free some and run the command again; what was stored is kept",
    )


def _read_only(where: str) -> StoreError:
    return StoreError(
        f"{where} or its directory is read-only for this user",
        next_step=f"change the permissions, or set {STATE_DIR_VARIABLE} to a writable directory",
    )


def _locked(place: Place) -> StoreError:
    pids = users_of(place.path) if place.path else []
    users = f" (process {', '.join(map(str, pids))} has it open)" if pids else ""
    return StoreError(
        f"the database {place.name} is locked by another process{users}",
        next_step="wait until it is done, or end it, and run the command again",
    )


def users_of(path: Path) -> list[int]:
    """The other processes that have ``path`` open, as far as this user may see."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and any(
                f.path == str(path) for f in process.open_files()
            ):
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def _cannot_open(place: Place) -> StoreError:
    path = place.path
    if path is not None and path.is_dir():
        return StoreError(f"the database {path} is a directory", accepted="a file")
    if path is not None and not path.parent.is_dir():
        return StoreError(
            f"the directory {path.parent} of the database does not exist",
            next_step=f"create it, or change {URL_VARIABLE}",
        )
    return _read_only(place.name)


def _corrupt(place: Place, detail: str) -> StoreError:
    path = place.path
    return StoreError(
        f"the database {place.name} is damaged or not hvxtune's: {detail}",
        # All of its files: a log left behind would be replayed into the next database.
        next_step=f"move it with its -wal and -shm files elsewhere (mv {path}* FOLDER) and run the "
        f"command again; `sqlite3 {path} .recover` may save its rows"
        if path
        else "restore it from a backup",
    )


_SERVER_STATES = {
    "53100": "its disk is full",
    "25006": "it is read-only",
    "42501": "this user may not write there",
    "3D000": "it does not exist",
    "28P01": "the password is wrong",
    "55P03": "another process has locked it",
    "57014": "a query took longer than statement_timeout allows",
    "25P03": "a transaction was idle for longer than idle_in_transaction_session_timeout allows",
}
"""SQLSTATE codes (PostgreSQL manual, appendix A) with a text of their own."""


def _from_server(error: BaseException, place: Place) -> HvxtuneError:
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith("23"):
        return InternalError(f"the database {place.name} refused a record: {_first_line(error)}")
    if state == "22003":
        return UserError("a number is too large to store", accepted="at most 63 bits")
    return StoreError(
        f"the database {place.name} cannot be used: "
        f"{_SERVER_STATES.get(state) or _first_line(error)}",
        next_step=f"check the server and {URL_VARIABLE}",
    )


def wrong_url(url: str, error: Exception) -> StoreError:
    """For a URL that SQLAlchemy cannot read, or whose driver is unknown or not installed."""
    accepted = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    if isinstance(error, ModuleNotFoundError):
        return StoreError(
            f"the driver for {url} is not installed ({error.name})",
            next_step="install it with: pip install 'hvxtune[postgres]'",
        )
    if isinstance(error, NoSuchModuleError):
        return StoreError(f"unknown kind of database in {url}", accepted=accepted)
    return StoreError(f"'{url}' is not a database URL", accepted=accepted)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
