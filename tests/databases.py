"""Databases that are ready before a test begins: making tables takes longer than most tests do."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from db import open_store
from db.engine import DATABASE_FILE


def put_database(state: Path) -> None:
    """An empty database of the current schema in the state directory ``state``, as the first
    command there would make it."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(_template(), state / DATABASE_FILE)
    (state / DATABASE_FILE).chmod(0o600)  # as it is made: nothing to tighten, and to tell of


@cache
def _template() -> Path:
    folder = tempfile.mkdtemp(prefix="hvxtune-template-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Path(folder) / DATABASE_FILE
    open_store(f"sqlite:///{made}").close()  # closed, all of it is in the one file
    return made
