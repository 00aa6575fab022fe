"""Cursors: where a list goes on, as text that means nothing to whoever passes it back."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence

from tuner.errors import UserError

Value = int | float | str
MOST_CHARACTERS = 500
"""A longer cursor is none of ours."""


def encode(values: Sequence[Value]) -> str:
    """The cursor that names the last item of a page by ``values``."""
    text = json.dumps(list(values), separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(cursor: str, *types: type) -> tuple[Value, ...]:
    """The values in ``cursor``, one for each of ``types``; ``UserError`` if it is none of ours.

    Integers pass for floats, as JSON does not tell ``1`` from ``1.0``.
    """
    try:
        if len(cursor) > MOST_CHARACTERS:
            raise ValueError
        padded = cursor + "=" * (-len(cursor) % 4)
        values = json.loads(base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True))
        if not isinstance(values, list) or len(values) != len(types):
            raise ValueError
        return tuple(_read(value, kind) for value, kind in zip(values, types, strict=True))
    except (ValueError, RecursionError, OverflowError):
        raise UserError(
            f"cursor '{cursor[:40]}' is none that this list gave out",
            accepted="next_cursor of the page before, with the same filters",
            next_step="leave cursor out to begin again",
        ) from None


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
