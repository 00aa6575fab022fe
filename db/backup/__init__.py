"""A whole store as one file, and back: every table, artifacts and uploads, with their digests.

``layout`` is the format, ``rows`` turns tables of any database into lines and back, ``writing`` and
``reading`` do the two ways; ``copying`` goes from one store to another without a file. To hand some
schedules to another service use :mod:`db.exchange`.
"""

from __future__ import annotations

from db.backup.copying import Copied, copy_store
from db.backup.layout import Note
from db.backup.reading import Restored, restore_backup
from db.backup.writing import BackedUp, write_backup

__all__ = [
    "BackedUp",
    "Copied",
    "Note",
    "Restored",
    "copy_store",
    "restore_backup",
    "write_backup",
]
