"""Where hvxtune keeps its state: one directory, ``HVXTUNE_STATE_DIR`` or the XDG state home."""

from __future__ import annotations

import os
from pathlib import Path

from tuner.errors import StoreError

STATE_DIR_VARIABLE = "HVXTUNE_STATE_DIR"
PRIVATE_FILE_MODE = 0o600
PRIVATE_FOLDER_MODE = 0o700
"""The state directory holds tokens, uploads and what was tuned: it is for its user only."""


def state_dir() -> Path:
    """The state directory (not created)."""
    given = os.environ.get(STATE_DIR_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    from platformdirs import user_state_path

    return user_state_path("hvxtune", appauthor=False)


def writable(name: str) -> Path:
    """The folder ``name`` under the state directory, created with its parents.

    Raises ``StoreError`` if it cannot be created or written to.
    """
    folder = state_dir() / name
    try:
        make_private(folder)
    except OSError as error:
        raise StoreError(
            f"cannot create {folder}: {error.strerror}",
            next_step=f"free space or permissions there, or set {STATE_DIR_VARIABLE}",
        ) from None
    if not os.access(folder, os.W_OK):
        raise StoreError(
            f"{folder} is not writable",
            next_step=f"change its permissions, or set {STATE_DIR_VARIABLE}",
        )
    return folder


def make_private(folder: Path) -> None:
    """Makes ``folder``, and those above it that are missing, for this user only, whatever the
    umask says. One that is there stays as it is. Raises ``OSError``."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_private(folder.parent)  # `parents=True` would make them for everybody
    folder.mkdir(mode=PRIVATE_FOLDER_MODE, exist_ok=True)


def for_this_user(path: str, flags: int) -> int:
    """For ``open(..., opener=for_this_user)``: a new file is made for this user only."""
    return os.open(path, flags, PRIVATE_FILE_MODE)
