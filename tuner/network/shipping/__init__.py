"""A network shipped: what another machine needs to link it into a program and call it.

``edges`` takes off what the caller does, ``program`` makes operations in one memory of the steps,
whose ``arena`` is planned, ``c_source`` and ``pages`` write them down, ``bundle`` adds objects and
manifest, and ``archive`` puts all into a folder or file.
"""

from __future__ import annotations

from tuner.network.shipping.archive import SUFFIX, packed, require_place, write
from tuner.network.shipping.bundle import (
    MANIFEST,
    Bundle,
    Function,
    bundle_of,
    bundle_with,
    made_with,
    problems_of,
    require_name,
)

__all__ = [
    "MANIFEST",
    "SUFFIX",
    "Bundle",
    "Function",
    "bundle_of",
    "bundle_with",
    "made_with",
    "packed",
    "problems_of",
    "require_name",
    "require_place",
    "write",
]
