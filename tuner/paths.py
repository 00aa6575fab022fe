"""Where hvxtune keeps things: what took work in the state directory, what can be rebuilt in the
cache, which belongs to the machine and serves every state directory.

The state directory (database, artifacts, tokens, calibrations) is ``HVXTUNE_STATE_DIR``, else
``hvxtune`` under the XDG state home; losing it loses work. The cache (simulators, compiled parts,
references, what builds fetched) is ``HVXTUNE_CACHE_DIR``, else ``hvxtune`` under the XDG cache
home; losing it costs minutes.
"""

from __future__ import annotations

import os
from pathlib import Path

from tuner.errors import StoreError

STATE_DIR_VARIABLE = "HVXTUNE_STATE_DIR"
CACHE_DIR_VARIABLE = "HVXTUNE_CACHE_DIR"
PRIVATE_FILE_MODE = 0o600
PRIVATE_FOLDER_MODE = 0o700
"""The state directory holds tokens, uploads and tuned schedules, the cache programs that are run:
both are for their user only."""


def state_dir() -> Path:
    """The state directory (not created)."""
    given = os.environ.get(STATE_DIR_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    return of_user("XDG_STATE_HOME", ".local/state")


def cache_dir() -> Path:
    """The cache (not created)."""
    given = os.environ.get(CACHE_DIR_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    return of_user("XDG_CACHE_HOME", ".cache")


def of_user(variable: str, otherwise: str) -> Path:
    """The folder of hvxtune in a base directory of the XDG specification: that of the environment
    ``variable``, else ``otherwise`` in the home directory. Set-up asks this before any package is
    installed."""
    return Path(os.environ.get(variable, "").strip() or Path.home() / otherwise) / "hvxtune"


def writable(name: str) -> Path:
    """The folder ``name`` under the state directory, created with its parents.

    Raises ``StoreError`` if it cannot be created or written to.
    """
    return _made(state_dir() / name, STATE_DIR_VARIABLE)


def cached(name: str) -> Path:
    """The folder ``name`` in the cache, created as by :func:`writable`."""
    return _made(cache_dir() / name, CACHE_DIR_VARIABLE)


def _made(folder: Path, variable: str) -> Path:
    try:
        make_private(folder)
    except OSError as error:
        raise StoreError(
            f"cannot create {folder}: {error.strerror}",
            next_step=f"free space or permissions there, or set {variable}",
        ) from None
    if not os.access(folder, os.W_OK):
        raise StoreError(
            f"{folder} is not writable", next_step=f"change its permissions, or set {variable}"
        )
    return folder


def make_private(folder: Path) -> None:
    """Makes ``folder``, and those above it that are missing, for this user only, whatever the
    umask says. An existing one stays as it is. Raises ``OSError``."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_private(folder.parent)  # `parents=True` would make them for everybody
    folder.mkdir(mode=PRIVATE_FOLDER_MODE, exist_ok=True)


def for_this_user(path: str, flags: int) -> int:
    """For ``open(..., opener=for_this_user)``: a new file is made for this user only."""
    return os.open(path, flags, PRIVATE_FILE_MODE)
