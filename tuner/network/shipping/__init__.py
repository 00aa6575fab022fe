"""A network shipped: what another machine needs to link it into a program and call it.

``edges`` takes off what the caller does, ``program`` makes operations in one memory of the steps,
whose ``arena`` is planned, ``c_source`` and ``pages`` write them down, ``bundle`` adds objects and
manifest, and ``archive`` puts all into a folder or file.
"""

from __future__ import annotations

from tuner.network.shipping.archive import packed, require_place, write
from tuner.network.shipping.bundle import Bundle, Function, bundle_of, require_name

__all__ = [
    "Bundle",
    "Function",
    "bundle_of",
    "packed",
    "require_name",
    "require_place",
    "write",
]
