"""Lists in pages, and cursors: opaque texts that say where a list goes on."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tuner.errors import UserError

T = TypeVar("T")
Value = int | float | str
MOST_CHARACTERS = 500
"""No cursor of ours is longer."""


def page(
    found: Sequence[T],
    limit: int,
    form: Callable[[T], Any],
    key: Callable[[T], Sequence[Value]],
) -> dict[str, Any]:
    """The first ``limit`` of ``found`` as a page; if there are more, ``next_cursor`` names the last
    one shown by its ``key``. Ask the store for one more than ``limit``."""
    shown = found[:limit]
    return {
        "items": [form(one) for one in shown],
        "next_cursor": encode(key(shown[-1])) if len(found) > len(shown) else None,
    }


def encode(values: Sequence[Value]) -> str:
    """The cursor that names the last item of a page by ``values``."""
    text = json.dumps(list(values), separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(cursor: str, *types: type) -> tuple[Value, ...]:
    """The values in ``cursor``, one for each of ``types``; ``UserError`` if it is not ours.

    Integers pass for floats, as JSON does not distinguish ``1`` from ``1.0``.
    """
    try:
        if len(cursor) > MOST_CHARACTERS:
            raise ValueError
        padded = cursor + "=" * (-len(cursor) % 4)
        values = json.loads(base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True))
        if not isinstance(values, list):
            raise ValueError
        return tuple(_read(value, kind) for value, kind in zip(values, types, strict=True))
    except (ValueError, RecursionError, OverflowError):
        raise UserError(
            f"cursor '{cursor[:40]}' does not belong to this list",
            accepted="next_cursor of the page before, with the same filters",
            next_step="leave cursor out to begin again",
        ) from None


def number_before(cursor: str | None) -> int | None:
    """The one number in the cursor of a list of numbered items."""
    return None if cursor is None else int(decode(cursor, int)[0])


def _read(value: object, kind: type) -> Value:
    if isinstance(value, bool):
        raise ValueError
    if kind is float and isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    if kind is int and isinstance(value, int) and abs(value) < 2**63:
        return value
    if kind is str and isinstance(value, str) and "\0" not in value and value.encode():
        return value  # encode refuses halves of surrogate pairs, which no database takes
    raise ValueError
