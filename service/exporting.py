"""Files of schedules as answers: written aside, sent, removed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from service.suggested_files import suggested
from tuner.paths import writable

MEDIA_TYPE: Final = "application/octet-stream"
"""What every client takes for a file; that it is a zip, its name says."""
DESCRIBED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        "description": "A zip: see the format in docs/rest.md.",
    }
}
"""The answer in the documentation of a route."""
_STALE_S = 24 * 3600.0


def exported(write: Callable[[Path], object], name: str) -> FileResponse:
    """The file that ``write`` makes at the path it is given; browsers save it as ``name``.
    Blocks."""
    place = _swept(writable("transfers")) / f"{os.urandom(8).hex()}.zip"
    try:
        write(place)
    except BaseException:
        place.unlink(missing_ok=True)
        raise
    return FileResponse(
        place,
        media_type=MEDIA_TYPE,
        filename=suggested(name),
        background=BackgroundTask(place.unlink, missing_ok=True),
    )


def _swept(folder: Path) -> Path:
    """``folder``, swept of the leftovers of exports that were killed long ago."""
    for entry in folder.iterdir():
        try:
            if time.time() - entry.stat().st_mtime > _STALE_S:
                entry.unlink()
        except FileNotFoundError:
            continue  # another export was first
    return folder
