"""Stored things on their way: some schedules to another service, a whole store into a backup and
back, or into another store.

:mod:`tuner.keeping.archive` is the one format of both files. ``lines`` turns a schedule into a line
and back, ``schedules`` writes and imports files of them; ``rows`` does the same for tables of any
database, ``backup`` for all of them with all files.
"""

from __future__ import annotations

from db.exchange.backup import BackedUp, Restored, copy_store, restore_backup, write_backup
from db.exchange.schedules import (
    Imported,
    export_schedules,
    import_schedules,
    opened,
    write_schedules,
)
from db.exchange.whole import Note

__all__ = [
    "BackedUp",
    "Imported",
    "Note",
    "Restored",
    "copy_store",
    "export_schedules",
    "import_schedules",
    "opened",
    "restore_backup",
    "write_backup",
    "write_schedules",
]
