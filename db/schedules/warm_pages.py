"""Pages of the database that look-ups find mapped already.

SQLite reads a mapped file as memory, and the first touch of each page is a fault that the kernel
has to settle: with a million schedules, hardly any first look-up finds its eight or so pages
mapped, and that is a fifth of its time. Linux maps them all at once when it is asked to.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import threading
from pathlib import Path

import psutil

_MADV_POPULATE_READ = 22
"""Since Linux 5.14 (madvise(2)); older ones refuse it, and pages are mapped as they are read."""
_MOST_OF_FREE_MEMORY = 0.5
_log = logging.getLogger("hvxtune.db")


def warm(file: Path) -> threading.Thread | None:
    """Maps what this process maps of ``file`` in a thread of its own; nothing where the file would
    take more than half of the free memory. It only makes look-ups faster: a mapping that SQLite
    gives up meanwhile does no harm, nor does a system that cannot do this."""
    with contextlib.suppress(OSError):
        if file.stat().st_size < _MOST_OF_FREE_MEMORY * psutil.virtual_memory().available:
            thread = threading.Thread(target=_populate, args=(file,), daemon=True)
            thread.start()
            return thread
    return None


def _populate(file: Path) -> None:
    try:
        places = _mappings(file)
        madvise = ctypes.CDLL(None, use_errno=True).madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in places:
            if madvise(start, end - start, _MADV_POPULATE_READ) != 0:
                _log.debug("pages of %s are not warmed: error %s", file, ctypes.get_errno())
    except (OSError, AttributeError) as error:
        _log.debug("pages of %s are not warmed: %s", file, error)


def _mappings(file: Path) -> list[tuple[int, int]]:
    """Where ``file`` is mapped in this process: addresses of first bytes, and beyond the last."""
    wanted = str(file.resolve())
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, *_, path = line.split(maxsplit=5)
        if path == wanted:
            start, _, end = place.partition("-")
            found.append((int(start, 16), int(end, 16)))
    return found
