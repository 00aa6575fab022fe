"""Long-lived processes leave what they began with out of garbage collection."""

from __future__ import annotations

import gc


def settle_memory() -> None:
    """Exempts all present objects from garbage collection.

    Otherwise each full round visits some hundred thousand objects of libraries and schemas, and
    all requests and commits wait for tens of milliseconds.
    """
    gc.collect()
    gc.freeze()
