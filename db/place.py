"""Where a database is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

URL_VARIABLE: Final = "HVXTUNE_DATABASE_URL"


@dataclass(frozen=True)
class Place:
    """Where a database is: ``name`` for people (no password), ``path`` if it is one file."""

    name: str
    path: Path | None = None
