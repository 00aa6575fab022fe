"""One part that hvxtune uses on this machine, as ``hvxtune doctor`` shows it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """Whether a part is present, what was found, its purpose, and how to get it.

    ``required`` parts must be present to tune at all; the others add something. ``remedy`` is a
    command or a sentence that a person can follow, also filled in where the part is present.
    """

    name: str
    present: bool
    found: str
    purpose: str
    remedy: str
    required: bool = True

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)
