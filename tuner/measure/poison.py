"""Poison: what memory and registers hold that nobody has written to.

There are two patterns, the second the complement of the first: whatever bit a candidate reads that
is not initialised differs between two runs on the same inputs. No byte of either is 0, so nothing
reads as zero by chance, and bytes depend on their place, so that no two of them cancel out.
"""

from __future__ import annotations

import fcntl
import os
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tuner.errors import DeviceError

Bytes = NDArray[np.uint8]

PAGE_BYTES = 1 << 16
"""Hexagon Linux pages; the patterns repeat after as many."""
PATTERNS = 2
_FILE_BYTES = 1 << 24
"""Of each pattern in the file: ``POISON_BYTES`` of harness/memory_map.h."""
_SEED = 0x706F6973


@cache
def poison(number: int) -> Bytes:
    """A page of pattern 0 or 1. Not to be written to."""
    first = np.random.default_rng(_SEED).integers(1, 254, PAGE_BYTES, np.uint8, endpoint=True)
    page = ~first if number else first
    page.flags.writeable = False
    return page


@cache
def poison_descriptor() -> int:
    """A file in memory with both patterns, one behind the other, for programs to map. Made once a
    process and sealed: nobody can change it. ``DeviceError`` if there is no memory for it."""
    descriptor = os.memfd_create("poison", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        for number in range(PATTERNS):
            content = np.tile(poison(number), _FILE_BYTES // PAGE_BYTES)
            if os.pwrite(descriptor, content.data, number * _FILE_BYTES) != _FILE_BYTES:
                raise OSError
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(descriptor)
        raise DeviceError(f"no memory for {PATTERNS * _FILE_BYTES} bytes of poison") from None
    return descriptor
