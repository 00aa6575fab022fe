"""Waiting in tests: for what can be seen, and as long as a busy machine may need."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300.0
"""For whatever must come at last: a machine that does five other things at once must not fail a
test. A limit that a test waits for until it is over is another matter, and much shorter."""


def until(reached: Callable[[], object], *, look_every_s: float = 0.02) -> None:
    """Returns once ``reached()`` is true; ``AssertionError`` if it is not within the patience."""
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline, f"it did not come to that in {PATIENCE_S:g} s"
        time.sleep(look_every_s)
