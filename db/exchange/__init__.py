"""Schedules as one file, for another service: a zip of JSON Lines and the files of the objects.

``hvxtune-schedules.json`` identifies it, ``schedules.jsonl`` has a schedule a line with all its
provenance, and ``files/SHA256`` is each file that a line refers to, named by its digest. So any
unzip program opens it, and nothing in it has a name that could lead elsewhere.
"""

from __future__ import annotations

from db.exchange.reading import Imported, import_schedules, opened
from db.exchange.writing import export_schedules, write_schedules

__all__ = ["Imported", "export_schedules", "import_schedules", "opened", "write_schedules"]
