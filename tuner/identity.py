"""Canonical JSON and digests: the names of workloads, spaces, configs and artifacts."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)


def canonical_json(value: Any) -> str:
    """``value`` as JSON with sorted keys and no spaces, so that equal values give equal text.

    Raises ``ValueError`` for NaN and infinities and ``TypeError`` for what JSON cannot hold.
    """
    return _ENCODER.encode(value)


def digest_of(value: Any) -> str:
    """SHA-256 of the canonical JSON of ``value``, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def digest_of_bytes(data: bytes) -> str:
    """SHA-256 of ``data``, as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
