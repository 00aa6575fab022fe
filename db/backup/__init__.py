"""A whole store as one file, and back: every table, artifacts and uploads, with their digests.

``layout`` says what such a file consists of, ``rows`` how tables become lines whatever database
they are in, ``writing`` and ``reading`` do the two ways. For some schedules on their way to another
service there is :mod:`db.exchange`.
"""

from __future__ import annotations

from db.backup.layout import Note
from db.backup.reading import Restored, restore_backup
from db.backup.writing import BackedUp, write_backup

__all__ = ["BackedUp", "Note", "Restored", "restore_backup", "write_backup"]
