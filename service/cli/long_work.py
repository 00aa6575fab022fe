"""Work over many bytes, as it shows itself on standard error once it takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_S = 2.0
"""Work that takes no longer shows nothing."""
EVERY_S = 2.0
_MIB = 1 << 20


@contextmanager
def shown(label: str) -> Iterator[Callable[[int, int], None]]:
    """Gives what is to be told how many bytes are done, and of how many. On a terminal one line
    changes, elsewhere there is a line from time to time."""
    terminal = sys.stderr.isatty()
    next_at = time.monotonic() + QUIET_S
    is_drawn = False

    def show(done: int, total: int) -> None:
        nonlocal next_at, is_drawn
        now = time.monotonic()
        if now < next_at:
            return
        next_at = now + (EVERY_S / 10 if terminal else EVERY_S)
        share = done / total if total else 1.0
        line = f"{label}: {done / _MIB:,.0f} of {total / _MIB:,.0f} MiB ({share:.0%})"
        sys.stderr.write(f"\r\x1b[K{line}" if terminal else f"{line}\n")
        sys.stderr.flush()
        is_drawn = True

    try:
        yield show
    finally:
        if terminal and is_drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
